package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// Export writes everything that the server's store has, as transfer.Export does, and
// checks that it is whole: what was written is of no use if there is an error. It takes
// an admin of the only tenant, or the person who runs the server. It is not repeated.
func (c *Client) Export(ctx context.Context, w io.Writer) (*transfer.Summary, error) {
	r, f := c.request(ctx, http.MethodGet, transfer.Path, nil)
	if f != nil {
		return nil, f.err
	}
	r.Header.Set("Accept", transfer.ContentType+", application/problem+json")
	response, err := c.http.Do(r)
	if err != nil {
		return nil, unreachable(ctx, err).err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err != nil {
			return nil, unreachable(ctx, err).err
		}
		return nil, refused(response, text).err
	}
	sum, err := transfer.Copy(w, &body{response.Body})
	if broken := (*brokenOff)(nil); errors.As(err, &broken) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &workitem.Error{Code: workitem.AuthorityUnavailable, Err: broken.err,
			Message: fmt.Sprintf("the server has broken the export off (%v); its log may say why", broken.err)}
	}
	return sum, err
}

// body marks errors of an answer.
type body struct{ io.Reader }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &brokenOff{err}
	}
	return n, err
}

type brokenOff struct{ err error }

func (e *brokenOff) Error() string { return e.err.Error() }
