//! Work that stops in the middle, and continues at a later time of the world: a write whose commit is slow,
//! or a reply whose snapshot opens late.
//!
//! The server's logic must be straight-line code. So each piece of such work has its own thread until it has
//! ended. Exactly one thread of a world runs at a time, and each hands over to the next, so the outcome
//! depends on the seed alone.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};

/// The world's order to work that has stopped.
enum Go {
    On,
    /// The process of the work has ended: the rest of it does not happen.
    End,
}

/// The work's message to the world.
enum Said<T> {
    Paused,
    Done(T),
    Panicked(Box<dyn Any + Send>),
}

struct Hand {
    go: Receiver<Go>,
    paused: Box<dyn Fn()>,
}

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static HAND: RefCell<Option<Hand>> = const { RefCell::new(None) };
    /// Idle threads of this world. Starting a thread takes longer than most jobs do.
    static IDLE: RefCell<Vec<Sender<Job>>> = const { RefCell::new(Vec::new()) };
}

/// Work that is under way.
pub struct Fiber<T> {
    go: Sender<Go>,
    said: Receiver<Said<T>>,
    /// The thread that runs it, until the work has ended.
    thread: Option<Sender<Job>>,
}

/// How far the work has come.
pub enum Progress<T> {
    Paused,
    Done(T),
}

/// The process that did the work has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended;

/// Stops here until the world continues the work. Returns at once if this is no fiber's thread.
pub fn pause() -> Result<(), Ended> {
    HAND.with_borrow(|hand| {
        let Some(hand) = hand else { return Ok(()) };
        (hand.paused)();
        match hand.go.recv() {
            Ok(Go::On) => Ok(()),
            // The world is over, or ends the process.
            Ok(Go::End) | Err(_) => Err(Ended),
        }
    })
}

/// A thread that runs one job after the other, as long as the sender exists.
fn thread() -> Sender<Job> {
    let (jobs, to_do) = channel::<Job>();
    std::thread::spawn(move || to_do.into_iter().for_each(|job| job()));
    jobs
}

impl<T: Send + 'static> Fiber<T> {
    /// Begins work, and lets it run up to its first pause.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> (Self, Progress<T>) {
        let (go, going) = channel();
        let (saying, said) = channel();
        let job = move || {
            let to_say = saying.clone();
            let paused = Box::new(move || drop(to_say.send(Said::Paused)));
            HAND.set(Some(Hand { go: going, paused }));
            let done = catch_unwind(AssertUnwindSafe(work));
            HAND.set(None);
            drop(saying.send(done.map_or_else(Said::Panicked, Said::Done)));
        };
        let thread = IDLE.with_borrow_mut(Vec::pop).unwrap_or_else(thread);
        drop(thread.send(Box::new(job)));
        let mut fiber = Fiber { go, said, thread: Some(thread) };
        let progress = fiber.wait();
        (fiber, progress)
    }

    /// Lets the work run up to its next pause, or its end.
    pub fn go_on(&mut self) -> Progress<T> {
        drop(self.go.send(Go::On));
        self.wait()
    }

    fn wait(&mut self) -> Progress<T> {
        match self.said.recv() {
            Ok(Said::Paused) => Progress::Paused,
            Ok(Said::Done(result)) => {
                self.give_back();
                Progress::Done(result)
            }
            Ok(Said::Panicked(panic)) => {
                self.give_back();
                resume_unwind(panic)
            }
            Err(RecvError) => panic!("work that ended without a word"),
        }
    }
}

impl<T> Fiber<T> {
    /// Makes its thread available again.
    fn give_back(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that is ending has no list of idle threads any more.
            let _ = IDLE.try_with(|idle| idle.borrow_mut().push(thread));
        }
    }
}

impl<T> Drop for Fiber<T> {
    /// Ends the process of the work: everything that it holds is released before anything else happens.
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.go.send(Go::End));
            // It may pause again on its way out. With a closed channel it does not wait.
            let (nobody, _) = channel();
            self.go = nobody;
            while let Ok(Said::Paused) = self.said.recv() {}
            self.give_back();
        }
    }
}
