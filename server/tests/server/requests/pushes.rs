//! Pushes over real sockets (R41): so many follow a def that their hints wait, and the rows come at once.

use std::collections::BTreeSet;

use escale::codec::{Format, ServerFrame, ServerParts};

use crate::support::client::*;
use crate::support::operating::{op, put_args, send};
use crate::support::world::*;

/// Reads until a hint of that version. Returns the pushes before it, or after it until `pushes` have come.
async fn until_hinted(socket: &mut Socket, v: u64, pushes: usize) -> Vec<(Format, ServerParts)> {
    let (mut found, mut is_hinted) = (Vec::new(), false);
    while !is_hinted || found.len() < pushes {
        match hear(socket).await.unwrap() {
            (format, ServerFrame::Parts(parts)) => {
                parts.check().unwrap();
                found.push((format, parts));
            }
            (_, ServerFrame::Hints(hints)) => is_hinted |= hints.iter().any(|(_, hinted)| *hinted >= v),
            (_, ServerFrame::Alive) => {}
            other => panic!("{other:?}"),
        }
    }
    found
}

#[tokio::test]
async fn r41_rows_come_to_a_crowd_before_its_turn_to_pull() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    // One turn at once, and eight a second.
    let running = serve(&world, |options| options.pulls = 8).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(listen(&running, "/o/live", &[shelf("one")]).await);
    }
    say(&mut sockets[2], Format::Json, None, &[shelf("one")]).await;
    assert!(matches!(hear(&mut sockets[2]).await.unwrap().1, ServerFrame::Live { .. }));
    let mut alone = listen(&running, "/o/live", &[shelf("two")]).await;

    let reply = send(&world.engine, vec![op("1", 1, "doc.put", put_args("b", "one"))]);
    let v = reply.results[0].ok.as_ref().unwrap().v;
    let mut formats = BTreeSet::new();
    for socket in &mut sockets {
        let pushes = until_hinted(socket, v, 1).await;
        assert_eq!(pushes.len(), 1);
        let (format, push) = &pushes[0];
        formats.insert(format.content_type());
        assert_eq!(
            (push.seq, &push.epoch),
            (1, &reply.epoch),
            "the session of all these sockets has written"
        );
        assert_eq!((push.parts.len(), ids(&push.parts[0])), (1, vec!["b".to_owned()]));
        assert_eq!((push.parts[0].rows[0].v, &push.parts[0].def), (v, &shelf("one")));
    }
    assert_eq!(formats.len(), 2, "each in the form of its session");

    // It leaves one def, which many follow, and enters another one, which one follows.
    let v = put(&world.engine, note("b", "two")).unwrap().unwrap();
    for socket in &mut sockets {
        let pushes = until_hinted(socket, v, 1).await;
        assert!(pushes.iter().any(|(_, push)| push.parts[0].left.iter().any(|(_, left)| *left == v)));
    }
    assert!(until_hinted(&mut alone, v, 0).await.is_empty(), "one follower is hinted at once");
    running.stop().await;
}
