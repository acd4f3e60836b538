package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

// copyPatience is how long a reader of a copy may take for what it is sent at once. As
// long as a copy is under way the log of the store grows.
const copyPatience = 30 * time.Second

// copyStore sends a copy of the store, as sqlite.Receive reads it.
func (s *Server) copyStore(w http.ResponseWriter, r *http.Request) {
	p, err := s.auth.Request(r)
	var e *workitem.Error
	switch {
	case err != nil:
		if !errors.As(err, &e) {
			e = &workitem.Error{Code: workitem.Internal, Message: "the credential could not be verified", Err: err}
		}
	case !p.Local:
		e = &workitem.Error{Code: workitem.ForbiddenScope, Message: "a copy is for the person who runs the server, at its socket"}
	case s.work.copy == nil:
		e = &workitem.Error{Code: workitem.InvalidState, Message: "the jobs are in a database: its own tools back it up"}
	}
	call := rest.Call{Principal: p}
	if e != nil {
		call.Code = e.Code
	}
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		x.route, x.call = operation.CopyPath, call
	}
	if e != nil {
		rest.WriteProblem(w, r, e)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &paced{ResponseWriter: w, control: http.NewResponseController(w)}
	if err := out.control.SetReadDeadline(time.Time{}); err != nil { // the copy may take longer than any request
		panic(http.ErrAbortHandler)
	}
	if err := s.work.copy(r.Context(), out); err != nil {
		s.log.Warn("a copy of the jobs was broken off", "error", err.Error())
		panic(http.ErrAbortHandler) // the reader must not take what it has for the whole
	}
}

// paced is an answer whose reader has some time for each part of it.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *paced) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(copyPatience)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}
