//! Work that stops in the middle, and goes on when the world's time has come: a write whose commit is slow, a reply whose
//! snapshot opens late.
//!
//! The server's logic is straight code, as it must be; so each such work has a thread of its own. Of all threads of a
//! world exactly one runs at a time, by hand-over: what happens depends on the seed alone.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What the world says to work that has stopped.
enum Go {
    On,
    /// Its process has ended: nothing of what it was about to do happens.
    End,
}

/// What the work says to the world.
enum Said<T> {
    Paused,
    Done(T),
}

struct Hand {
    go: Receiver<Go>,
    paused: Box<dyn Fn()>,
}

thread_local! {
    static HAND: RefCell<Option<Hand>> = const { RefCell::new(None) };
}

/// Work under way.
pub struct Fiber<T> {
    go: Sender<Go>,
    said: Receiver<Said<T>>,
    thread: Option<JoinHandle<()>>,
}

/// How far work has come.
pub enum Progress<T> {
    Paused,
    Done(T),
}

/// The process that did the work has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended;

/// Stops here until the world lets it go on; at once where this is no fiber's thread.
pub fn pause() -> Result<(), Ended> {
    HAND.with_borrow(|hand| {
        let Some(hand) = hand else { return Ok(()) };
        (hand.paused)();
        match hand.go.recv() {
            Ok(Go::On) => Ok(()),
            // The world is over, or says so.
            Ok(Go::End) | Err(_) => Err(Ended),
        }
    })
}

impl<T: Send + 'static> Fiber<T> {
    /// Begins work, and lets it run up to its first pause.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> (Self, Progress<T>) {
        let (go, going) = channel();
        let (saying, said) = channel();
        let thread = std::thread::spawn(move || {
            let to_say = saying.clone();
            let paused = Box::new(move || drop(to_say.send(Said::Paused)));
            HAND.set(Some(Hand { go: going, paused }));
            drop(saying.send(Said::Done(work())));
        });
        let mut fiber = Fiber { go, said, thread: Some(thread) };
        let progress = fiber.wait();
        (fiber, progress)
    }

    /// Lets it run up to its next pause, or its end.
    pub fn go_on(&mut self) -> Progress<T> {
        drop(self.go.send(Go::On));
        self.wait()
    }

    fn wait(&mut self) -> Progress<T> {
        match self.said.recv() {
            Ok(Said::Paused) => Progress::Paused,
            Ok(Said::Done(result)) => Progress::Done(result),
            Err(_) => {
                let end = self.thread.take().map(JoinHandle::join);
                if let Some(Err(panic)) = end {
                    std::panic::resume_unwind(panic);
                }
                panic!("work that ended without a word");
            }
        }
    }
}

impl<T> Drop for Fiber<T> {
    /// Its process ends: whatever it holds is given back before anything else happens.
    fn drop(&mut self) {
        drop(self.go.send(Go::End));
        if let Some(thread) = self.thread.take() {
            // It may pause again on its way out; without a world it does not wait.
            let (nobody, _) = channel();
            self.go = nobody;
            drop(thread.join());
        }
    }
}
