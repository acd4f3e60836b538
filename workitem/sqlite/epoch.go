package sqlite

import (
	"container/heap"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

const readEpoch = "SELECT value FROM meta WHERE name = 'epoch'"

// Epoch implements workitem.Reader.
func (r *reader) Epoch() (epoch int64, err error) {
	if r.writer {
		return r.s.state.epoch, nil
	}
	err = r.query(readEpoch, func(*binder) {}, func(s *sqlite.Stmt) error {
		epoch = s.ColumnInt64(0)
		return nil
	})
	return epoch, err
}

// RaiseEpoch implements workitem.Tx.
func (t *tx) RaiseEpoch() (int64, error) {
	st := t.s.state
	if st.epoch >= workitem.LastEpoch {
		return 0, workitem.ErrLastEpoch
	}
	now := t.Now()
	err := t.do("INSERT INTO meta (name, value) VALUES ('epoch', ?1) ON CONFLICT DO UPDATE SET value = ?1", func(b *binder) { b.int(st.epoch + 1) })
	if err != nil {
		return 0, err
	}
	for tenant := range int64(t.s.tenants.count()) {
		for status := workitem.Submitted; !status.Terminal(); status++ {
			err := t.do(`UPDATE items SET lease_epoch = lease_epoch + ?3, fencing_token = fencing_token + ?3, lease_expires = min(lease_expires, ?4)
				WHERE tenant = ?1 AND status = ?2`, func(b *binder) {
				b.int(tenant + 1)
				b.int(int64(status))
				b.int(workitem.EpochStep)
				b.int(int64(now))
			})
			if err != nil {
				return 0, err
			}
		}
	}
	st.epoch++
	for _, l := range st.leases {
		for _, held := range l.live {
			held.supersede(now)
		}
		for _, kind := range l.over {
			for _, held := range kind {
				held.supersede(now)
			}
		}
		for _, held := range l.exhausted {
			held.supersede(now)
		}
		heap.Init(&l.live)
	}
	return st.epoch, nil
}

// supersede is what a raised epoch does to an item that somebody holds.
func (l *lease) supersede(now workitem.Instant) {
	l.LeaseEpoch += workitem.EpochStep
	l.FencingToken += workitem.EpochStep
	l.LeaseExpiresAt = min(l.LeaseExpiresAt, now)
}
