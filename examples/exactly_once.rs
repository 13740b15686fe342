//! Exactly-once effects: payments are booked in tables of the application, in the same commit as the
//! ack of their tasks. Worker processes die in the middle of their work, and each payment is booked
//! once all the same.
//!
//! `cargo run --features redb --example exactly_once`. The program starts itself as its workers.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use tubewell::redb::{ReadableTable, TableDefinition};
use tubewell::{Outcome, Store};

/// The balance of each account.
const BALANCES: TableDefinition<&str, u64> = TableDefinition::new("balances");
/// The account and the amount of each payment, by the id of its task.
const BOOKED: TableDefinition<u64, (&str, u64)> = TableDefinition::new("booked");

const ACCOUNTS: [&str; 3] = ["ann", "bob", "carl"];
const PAYMENTS: u64 = 100;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Where a worker process dies.
#[derive(Clone, Copy)]
enum Death {
    /// After it has written the rows, before the commit.
    InTransaction,
    /// After the commit, before anything else.
    AfterCommit,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, path, payments, death] = arguments.as_slice() {
        let death = if death == "in" { Death::InTransaction } else { Death::AfterCommit };
        return work(Path::new(path), payments.parse()?, death);
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
    let payments = store.tube("payments")?;
    let accounts = ACCOUNTS.iter().cycle();
    payments.put_many(accounts.zip(1..=PAYMENTS).map(|(name, sum)| format!("{name} {sum}")))?;
    Ok(store.close()?)
}

/// A worker: books payments until there are no more, and dies at the given one.
fn work(path: &Path, payments: u64, death: Death) -> Result<()> {
    let store = Store::open(path)?;
    let tube = store.find_tube("payments")?;
    let mut count = 0;
    while let Some(claim) = tube.try_take()? {
        count += 1;
        let (account, amount) = parse(claim.body())?;
        // The rows and the ack are one commit. An error would take the rows back, and the claim
        // would stand.
        store.transact(|tx| -> Result<()> {
            let mut balances = tx.open_table(BALANCES)?;
            let balance = balances.get(account)?.map_or(0, |row| row.value());
            balances.insert(account, balance + amount)?;
            let mut booked = tx.open_table(BOOKED)?;
            if booked.insert(claim.id(), (account, amount))?.is_some() {
                return Err("the payment was booked already".into());
            }
            if count == payments && matches!(death, Death::InTransaction) {
                std::process::abort();
            }
            Ok(tx.end(&claim, Outcome::done())?)
        })?;
        if count == payments && matches!(death, Death::AfterCommit) {
            std::process::abort();
        }
    }
    Ok(store.close()?)
}

fn parse(body: &[u8]) -> Result<(&str, u64)> {
    let (account, amount) = std::str::from_utf8(body)?.split_once(' ').ok_or("no amount")?;
    Ok((account, amount.parse()?))
}

fn is_done(path: &Path) -> Result<bool> {
    let store = Store::open(path)?;
    let tasks = store.find_tube("payments")?.statistics()?.tasks;
    store.close()?;
    Ok(tasks.total == 0)
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
