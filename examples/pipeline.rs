//! A pipeline: letters go through three tubes, with a worker each. A worker passes its letter on to
//! the next tube and orders mails, with one commit: `finish`. If it dies before that, the letter is
//! still in its tube, and no mail has been ordered.
//!
//! `cargo run --example pipeline`.

use std::thread;

use tubewell::{Claim, Ending, Error, FIFO, Finish, Result, Store, Tube, TubeOptions};

/// Works on a tube until the store is closed. `step` returns what follows from a letter, or nothing
/// if the worker has died meanwhile.
fn work(tube: &Tube, step: impl Fn(&Claim, &str) -> Option<Finish>) -> Result<()> {
    loop {
        let letter = match tube.take(None) {
            Ok(Some(letter)) => letter,
            Ok(None) | Err(Error::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(letter.data()).into_owned();
        match step(&letter, &text) {
            Some(finish) => drop(letter.finish(finish)?.id),
            // Its claim ends, so that the letter is ready again.
            None => drop(letter),
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory()?;
    let tube = |name| store.create_tube(name, FIFO, TubeOptions::new());
    let (scan, sort, archive, mail) =
        (tube("scan")?, tube("sort")?, tube("archive")?, tube("mail")?);

    let read = |_: &Claim, text: &str| Some(Finish::new().advance(&sort, format!("{text}, read")));
    let judge = |letter: &Claim, text: &str| {
        let mut finish = Finish::new().put(&mail, format!("to the sender: we have {text}"));
        if text.contains("complaint") {
            finish = finish.put(&mail, format!("to the manager: {text}"));
            if letter.takes() == 1 {
                return None; // the worker dies
            }
        }
        Some(finish.advance(&archive, format!("{text}, judged")))
    };
    let file = |_: &Claim, text: &str| Some(Finish::new().result(format!("filed: {text}")));

    let letters = ["invoice 7", "complaint 8", "invoice 9"];
    let filed = thread::scope(|scope| {
        let workers = [
            scope.spawn(|| work(&scan, read)),
            scope.spawn(|| work(&sort, judge)),
            scope.spawn(|| work(&archive, file)),
        ];
        // The producer of a letter waits for its end, in any tube.
        let waits = letters.map(|letter| {
            scope.spawn({
                let scan = &scan;
                move || scan.put_and_wait(letter, None)
            })
        });
        let endings = waits.map(|wait| wait.join().map_err(|_| "a thread has panicked"));
        let mails = mail.statistics().map(|numbers| numbers.tasks.ready);
        let closed = store.close();
        for worker in workers {
            worker.join().map_err(|_| "a worker has panicked")??;
        }
        closed?;
        let mut filed = Vec::new();
        for ending in endings {
            match ending??.1 {
                Some(Ending::Done { result: Some(result) }) => {
                    filed.push(String::from_utf8_lossy(&result).into_owned());
                }
                other => return Err(format!("a letter has ended otherwise: {other:?}").into()),
            }
        }
        Ok::<_, Box<dyn std::error::Error>>((filed, mails?))
    });
    let (filed, mails) = filed?;
    println!("{}", filed.join("\n"));
    println!("{} letters, {mails} mails", filed.len());
    if filed != letters.map(|letter| format!("filed: {letter}, read, judged")) || mails != 4 {
        return Err("a letter or a mail is missing or double".into());
    }
    Ok(())
}
