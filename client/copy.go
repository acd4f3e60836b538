package client

import (
	"context"
	"io"
	"net/http"

	"github.com/writ-authority/writ/server/operation"
)

// CopyJobs has read read a copy of the server's store, as sqlite.Receive does. Only the
// person who runs the server gets it, at its socket. It is never repeated.
func (c *Client) CopyJobs(ctx context.Context, read func(io.Reader) error) error {
	r, f := c.request(ctx, http.MethodGet, operation.CopyPath, nil)
	if f != nil {
		return f.err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return unreachable(ctx, err).err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
		if err != nil {
			return unreachable(ctx, err).err
		}
		return refused(response, text).err
	}
	return read(response.Body)
}

// maxProblem bounds a refusal of a copy, in bytes.
const maxProblem = 64 << 10
