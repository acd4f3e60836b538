package vfs

import "os"

// syncData makes data and length durable. On macOS fsync stops at the drive's
// cache; os.File.Sync uses F_FULLFSYNC, which goes through it.
func syncData(f *os.File) error { return f.Sync() }
