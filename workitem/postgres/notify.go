package postgres

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/workitem"
)

// change is what a transaction has changed for those who wait in other processes.
type change struct{ workitem.Change }

// note notes a job that went from one status to another.
func (c *change) note(it *workitem.Item, from workitem.Status, now workitem.Instant) {
	if it.Status == from {
		return
	}
	if from != 0 {
		c.Items = append(c.Items, it.ID)
	}
	if it.Status == workitem.Ready && it.Position(now) == workitem.Claimable {
		c.Ready = append(c.Ready, workitem.Queue{Tenant: it.Tenant, Kind: it.Kind})
	}
	if from.Held() && !it.Status.Held() {
		c.Leases = append(c.Leases, it.Tenant)
	}
}

func (c *change) add(o *change) {
	c.Items = append(c.Items, o.Items...)
	c.Ready = append(c.Ready, o.Ready...)
	c.Leases = append(c.Leases, o.Leases...)
}

func (c *change) empty() bool { return len(c.Items)+len(c.Ready)+len(c.Leases) == 0 }

const (
	// wakeEvery is how long changes are collected before other processes are told.
	wakeEvery = 5 * time.Millisecond
	// wakeItems is how many jobs one message names; of more it says that any may
	// have changed.
	wakeItems = 64
	// wakeQueues bounds the rest of a message, which PostgreSQL limits to 8,000 bytes.
	wakeQueues = 128
)

// wakes tells other processes what has changed, and this one what others have. A lost
// message costs time only: who waits looks again by himself.
type wakes struct {
	channel string
	process string

	mu      sync.Mutex
	pending change
	watch   []func(*workitem.Change)
	closed  bool
	arrived chan struct{} // has a token while something may be pending
}

func newWakes(schema, process string) *wakes {
	return &wakes{channel: "writ:" + schema, process: process, arrived: make(chan struct{}, 1)}
}

// Watch has fn called with what other processes have changed.
func (s *Store) Watch(fn func(*workitem.Change)) {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	s.wakes.watch = append(s.wakes.watch, fn)
}

// publish tells those who watch.
func (k *wakes) publish(c *workitem.Change) {
	k.mu.Lock()
	watch := k.watch
	k.mu.Unlock()
	for _, fn := range watch {
		fn(c)
	}
}

// send tells other processes of a change, soon.
func (k *wakes) send(c *change) {
	if c.empty() {
		return
	}
	k.mu.Lock()
	first := k.pending.empty()
	k.pending.add(c)
	k.mu.Unlock()
	if first {
		k.ring()
	}
}

func (k *wakes) ring() {
	select {
	case k.arrived <- struct{}{}:
	default:
	}
}

func (k *wakes) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.ring()
}

// take gives what is pending, and whether the store was closed.
func (k *wakes) take() (c change, closed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, k.pending = k.pending, change{}
	return c, k.closed
}

// message is a change on its way to other processes. Tenants are numbers.
type message struct {
	Process string     `json:"p"`
	Items   []string   `json:"i,omitempty"`
	AnyItem bool       `json:"a,omitempty"`
	Ready   [][3]int64 `json:"r,omitempty"` // tenant, kind, how many
	Leases  []int64    `json:"l,omitempty"`
}

// message makes the message of a change. What does not fit is left out.
func (s *Store) message(c *change) ([]byte, error) {
	m := message{Process: s.wakes.process, AnyItem: len(c.Items) > wakeItems}
	if !m.AnyItem {
		for _, id := range c.Items {
			m.Items = append(m.Items, id.WorkItemID())
		}
	}
	ready := map[workitem.Queue]int64{}
	for _, q := range c.Ready {
		ready[q]++
	}
	for q, n := range ready {
		if len(m.Ready) < wakeQueues {
			m.Ready = append(m.Ready, [3]int64{s.tenants.number(q.Tenant), int64(q.Kind), n})
		}
	}
	leases := map[string]bool{}
	for _, tenant := range c.Leases {
		if !leases[tenant] && len(m.Leases) < wakeQueues {
			leases[tenant] = true
			m.Leases = append(m.Leases, s.tenants.number(tenant))
		}
	}
	return json.Marshal(m)
}

// heard makes a change of a message, or nil of one that this process has sent.
func (s *Store) heard(payload string) (*workitem.Change, error) {
	var m message
	if err := json.Unmarshal([]byte(payload), &m); err != nil {
		return nil, err
	}
	if m.Process == s.wakes.process {
		return nil, nil
	}
	c := &workitem.Change{AnyItem: m.AnyItem}
	for _, text := range m.Items {
		id, err := workitem.ParseID(text)
		if err != nil {
			return nil, err
		}
		c.Items = append(c.Items, id)
	}
	for _, r := range m.Ready {
		tenant, ok := s.tenants.name(r[0])
		for n := int64(0); ok && n < min(r[2], wakeItems); n++ {
			c.Ready = append(c.Ready, workitem.Queue{Tenant: tenant, Kind: workitem.Kind(r[1])})
		}
	}
	for _, n := range m.Leases {
		if tenant, ok := s.tenants.name(n); ok {
			c.Leases = append(c.Leases, tenant)
		}
	}
	return c, nil
}

// tell sends what is pending, a few times a second at most, until the store is closed.
func (s *Store) tell() {
	for {
		<-s.wakes.arrived
		c, closed := s.wakes.take()
		if closed {
			return
		}
		if c.empty() {
			continue
		}
		payload, err := s.message(&c)
		if err == nil {
			_, err = s.aside.Exec(s.ctx, "SELECT pg_notify($1, $2)", s.wakes.channel, string(payload))
		}
		if err != nil {
			s.log.Debug("other processes were not told of a change", "error", err.Error())
		}
		select {
		case <-time.After(wakeEvery):
		case <-s.ctx.Done():
		}
	}
}

// listen hears what other processes have changed, on a connection of its own.
func (s *Store) listen(cfg *pgx.ConnConfig) {
	pause := firstPause
	for s.ctx.Err() == nil {
		err := s.hear(cfg, func() { pause = firstPause })
		if s.ctx.Err() != nil {
			return
		}
		s.log.Debug("changes of other processes are not heard", "error", err.Error())
		if e := sqlError(err); pause >= maxPause && (e == nil || disconnected(e)) && s.trouble.Load() == nil {
			s.fail(unavailable("the database can't be reached", err))
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
		pause = min(2*pause, 10*maxPause)
	}
}

// hear listens until the connection is lost.
func (s *Store) hear(cfg *pgx.ConnConfig, connected func()) error {
	conn, err := pgx.ConnectConfig(s.ctx, cfg.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // nothing was written
	}()
	if _, err := conn.Exec(s.ctx, "LISTEN "+pgx.Identifier{s.wakes.channel}.Sanitize()); err != nil {
		return err
	}
	connected()
	// What happened before was not heard.
	s.wakes.publish(&workitem.Change{Everything: true})
	for {
		n, err := conn.WaitForNotification(s.ctx)
		if err != nil {
			return err
		}
		c, err := s.heard(n.Payload)
		if err != nil {
			s.log.Warn("a message of another process can't be read", "error", err.Error())
			continue
		}
		if c != nil {
			s.wakes.publish(c)
		}
	}
}
