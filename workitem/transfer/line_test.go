package transfer

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/writ-authority/writ/workitem"
)

// rows is what a line has, as a store gets it, or an error.
func rows(l *line) (any, error) {
	switch {
	case l.Job != nil:
		return l.Job.item()
	case l.Events != nil:
		var list []workitem.Event
		for i := range l.Events.List {
			ev, err := l.Events.List[i].event()
			if err != nil {
				return nil, err
			}
			list = append(list, ev)
		}
		return list, nil
	case l.Edge != nil:
		return l.Edge.edge()
	case l.Tombstone != nil:
		return l.Tombstone.tombstone()
	case l.Claim != nil:
		return l.Claim.recall()
	case l.Turn != nil:
		return l.Turn.turn()
	case l.Token != nil:
		return l.Token.token()
	case l.Header != nil:
		return *l.Header, checkHeader(l.Header)
	}
	return nil, nil
}

// back is the line of what rows gave.
func back(t *testing.T, l *line, row any) *line {
	t.Helper()
	switch row := row.(type) {
	case *workitem.FullItem:
		j, err := newJob(row)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		return &line{Job: j}
	case []workitem.Event:
		e := &events{Job: l.Events.Job}
		for i := range row {
			e.List = append(e.List, newEvent(&row[i]))
		}
		return &line{Events: e}
	case *workitem.Tombstone:
		return &line{Tombstone: newTombstone(row)}
	case workitem.Recall:
		return &line{Claim: newClaim(&row)}
	case workitem.BucketTurn:
		return &line{Turn: newTurn(&row)}
	case *workitem.Token:
		return &line{Token: newToken(row)}
	}
	return l
}

const (
	jobID   = "rmjob:00000000-0000-5000-8000-000000000001"
	digests = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

var examples = []string{
	`{"header":{"format":"writ.jobs","version":1,"engine":"sqlite","schema":1,"epoch":3,"at":"2026-12-02T01:02:03.000004Z"}}`,
	`{"job":{"id":"` + jobID + `","tenant":"t","kind":"repository.build","state":"running","created":1,"updated":2,"repository":"r","owner":"o",` +
		`"fairness_group":"f","resource_class":"c","priority":5,"deadline":-1,"depends_on":["` + jobID + `"],"pending":1,"dependencies":"verified",` +
		`"attempt":1,"max_attempts":3,"backoff":1000000,"lease_owner":"w","lease_epoch":4294967297,"fencing_token":4294967297,"lease_expires":9,` +
		`"digest":"` + digests + `","loose_digest":"` + digests + `","key_digest":"` + digests + `","correlation":"x","request":"y","record":"{}"}}`,
	`{"events":{"job":"` + jobID + `","list":[{"seq":1,"at":1,"event":"submit","to":"ready"},{"seq":2,"at":5,"event":"claim","from":"ready","to":"leased","epoch":1,"subject":"s","detail":"d"}]}}`,
	`{"edge":{"parent":"` + jobID + `","child":"` + jobID + `"}}`,
	`{"tombstone":{"id":"` + jobID + `","tenant":"t","kind":"repository.merge","state":"dead-letter","owner":"o","digest":"` + digests + `","loose_digest":"` + digests + `","pruned":7}}`,
	`{"claim":{"tenant":"t","subject":"s","request":"q","job":"` + jobID + `","epoch":1,"worker":"w","kind":"repository.build","at":3}}`,
	`{"turn":{"tenant":"t","kind":"repository.repair","bucket":2,"fairness_group":"f","left":1}}`,
	`{"token":{"id":"i","name":"n","hash":"` + digests + `","subject":"s","tenant":"t","owner":"o","scopes":["jobs:read","jobs:admin"],"created":4,"revoked":5}}`,
	`{"count":{"tenant":"t","kind":"repository.build","state":"ready","jobs":1}}`,
	`{"end":{"rows":{"jobs":1,"events":2,"edges":3,"tombstones":4,"claims":5,"turns":6,"tokens":7},"sha256":"` + digests + `"}}`,
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, text := range examples {
		l, err := parseLine([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		row, err := rows(l)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := appendLine(nil, back(t, l, row))
		if err != nil || string(bytes.TrimSuffix(got, []byte("\n"))) != text {
			t.Errorf("written again it is\n%s\nwant\n%s (%v)", got, text, err)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, text := range examples {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseLine(text)
		if err != nil {
			return
		}
		row, err := rows(l)
		if err != nil {
			return
		}
		again, err := appendLine(nil, back(t, l, row))
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		l2, err := parseLine(bytes.TrimSuffix(again, []byte("\n")))
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		row2, err := rows(l2)
		if err != nil || !reflect.DeepEqual(row, row2) {
			t.Fatalf("%s gives\n%+v\nthen\n%+v (%v)", text, row, row2, err)
		}
	})
}
