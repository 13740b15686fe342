//! Exactly-once effects: payments are booked in tables of the application, in the same commit as the
//! ends of their jobs. Worker processes die in the middle of their work, and each payment is booked
//! once all the same.
//!
//! `cargo run --features redb --example exactly_once`. The program starts itself as its workers.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tubewell::redb::{ReadableTable, TableDefinition};
use tubewell::{Failure, Job, Outcome, Store, Worker};

/// The balance of each account.
const BALANCES: TableDefinition<&str, u64> = TableDefinition::new("balances");
/// The account and the amount of each payment, by the id of its task.
const BOOKED: TableDefinition<u64, (&str, u64)> = TableDefinition::new("booked");

const ACCOUNTS: [&str; 3] = ["ann", "bob", "carl"];
const PAYMENTS: u64 = 100;

/// An account and an amount.
type Payment = (String, u64);
type AnyError = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, AnyError>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, path, payments, death] = arguments.as_slice() {
        return work(Path::new(path), payments.parse()?, death == "in");
    }
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("payments.tubewell");
    put_payments(&path)?;

    let mut deaths = 0;
    while !is_done(&path)? {
        let payments = (7 + deaths % 5).to_string();
        let death = if deaths % 2 == 0 { "in" } else { "after" };
        let mut worker = Command::new(std::env::current_exe()?);
        let status = worker.arg(&path).arg(payments).arg(death).status()?;
        deaths += u64::from(!status.success());
    }

    let (booked, sum) = read_books(&path)?;
    println!("{booked} payments, {sum} in all, each booked once although {deaths} workers died");
    let expected = (PAYMENTS, (1..=PAYMENTS).sum());
    if (booked, sum) != expected || deaths < 5 {
        return Err("the books are wrong".into());
    }
    Ok(())
}

fn put_payments(path: &Path) -> Result<()> {
    let store = Store::open(path)?;
    let payments = store.tube("payments")?.typed::<Payment>();
    let accounts = ACCOUNTS.map(String::from).into_iter().cycle();
    payments.put_many(accounts.zip(1..=PAYMENTS))?;
    Ok(store.close()?)
}

/// A worker process: books payments until there are no more. At the given payment it dies, either in the
/// transaction, after it has written the rows, or after the commit, before anything else.
fn work(path: &Path, payments: u64, in_transaction: bool) -> Result<()> {
    let store = Store::open(path)?;
    let tube = store.find_tube("payments")?.typed::<Payment>();
    let (of, count) = (store.clone(), AtomicU64::new(0));
    let book = move |job: &Job<Payment>| -> Result<()> {
        let dies = count.fetch_add(1, Ordering::Relaxed) + 1 == payments;
        let (account, amount) = (job.value().0.as_str(), job.value().1);
        // The rows and the end of the job are one commit. After an error nothing is written, and the
        // attempt has failed, as by any other error.
        of.transact(|tx| -> Result<()> {
            let mut balances = tx.open_table(BALANCES)?;
            let balance = balances.get(account)?.map_or(0, |row| row.value());
            balances.insert(account, balance + amount)?;
            if tx.open_table(BOOKED)?.insert(job.id(), (account, amount))?.is_some() {
                return Err(Failure::new("double", "the payment was booked already").into());
            }
            if dies && in_transaction {
                std::process::abort();
            }
            Ok(tx.end(job, Outcome::done())?)
        })?;
        if dies {
            std::process::abort();
        }
        Ok(()) // has no effect: the job has ended
    };
    Worker::new(&store).on(&tube, book).run_until_idle()?;
    Ok(store.close()?)
}

fn is_done(path: &Path) -> Result<bool> {
    let store = Store::open(path)?;
    let is_done = store.find_tube("payments")?.wait_drained(Duration::ZERO)?;
    store.close()?;
    Ok(is_done)
}

/// The number of payments that are booked, and the sum of the balances.
fn read_books(path: &Path) -> Result<(u64, u64)> {
    let store = Store::open(path)?;
    let read = store.view(|view| -> Result<(u64, u64)> {
        let (Some(balances), Some(booked)) = (view.open_table(BALANCES)?, view.open_table(BOOKED)?)
        else {
            return Err("nothing was booked".into());
        };
        let mut sum = 0;
        for row in balances.iter()? {
            sum += row?.1.value();
        }
        Ok((booked.iter()?.count() as u64, sum))
    })?;
    store.close()?;
    Ok(read)
}
