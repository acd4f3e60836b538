package bindb

// Waiting is the number of mutations in the queue.
func (r *Root) Waiting() int {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	return len(r.queue)
}

// PayloadOf is the access to any payload file.
func PayloadOf(file string) Payload { return Payload{mustFamily(file)} }
