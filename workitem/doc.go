// Package workitem is the authority for jobs of repository work: checks, builds,
// merges, releases, repairs. It admits each request once, holds a job back until
// its parents have succeeded, hands out fenced leases that run out, and takes
// results only from whoever holds the newest one. Every verb is one durable
// transaction of a Store; nothing is answered before it is durable.
//
// The tenant of a call is the Principal's, never a member of the request. Jobs of
// other tenants behave like jobs that do not exist.
//
// Section numbers in comments are those of the work item specification, version 1.
package workitem
