// Package gate is the main job of Writ: it takes a range of commits in a Git
// repository, records it as a Patchset, runs its checks, decides by policy
// whether it may land, says why, and lands it.
//
// A Workspace joins one Git repository with its authority. Git keeps the content;
// the authority keeps what was proposed, checked, approved and decided. The two
// are tied by refs below refs/writ/, each written before the record that relies
// on it, so that no record names a commit that Git may drop.
//
// # What it promises
//
//   - Suites run in a clean checkout of exactly the recorded tree. Which suites
//     count, and which must pass, is what the base says: a change cannot weaken
//     its own gate.
//   - A land moves the branch by compare-and-swap, only for a Patchset that
//     passes or is waived, and only if the landed tree is the tested tree. A
//     crash between Git and the authority is finished or failed by the next
//     command.
//   - The user's work tree is touched only if it has the target branch checked
//     out and is clean.
//   - No lock is held while a suite runs.
package gate
