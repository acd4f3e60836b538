// Package postgres keeps work items in a PostgreSQL database (15 or later) that
// several server processes share.
//
// A Store promises what workitem.Store does: an update is answered once its
// transaction is durable, and what several processes do at once looks as if one of
// them had done it all, one update after another. Three things make it fast.
//
// Updates that wait share a transaction. Their functions run on what the
// transaction has read so far; what is missing is noted, fetched for all of them in
// one round trip, and they run again. Writes are collected and sent as sets, with the
// commit behind them. A batch of claims or submissions takes two round trips. A batch of
// commits and renewals by workers who got their jobs from the same process takes one: what
// the process has left is written on, on the condition that it is still so.
//
// Jobs are locked in the order of their ids, before anything is written. A function
// that turns out to need another job which somebody else has locked goes to the next
// transaction, where that job is locked in order too: so updates never wait for each
// other in a circle.
//
// Only claims count leases and pass the turns of fairness groups, so only they lock
// their tenant (pg_advisory_xact_lock). Commits, renewals and submissions of a tenant
// run beside each other and beside its claims, in one process or in many.
package postgres
