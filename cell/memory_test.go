package cell_test

import (
	"runtime"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
)

// TestIdleCellsAreSmall measures what an engine keeps of a cell that nobody uses. It is
// not parallel, as others would be measured with it.
func TestIdleCellsAreSmall(t *testing.T) {
	const cells, bound = 400, 2048
	store := &forgetful{Store: celltest.NewMemory(), keep: true}
	e := cell.New(store, cell.Options{})
	list := make([]record.Particle, cells)
	for i := range list {
		c, _, err := e.Create(t.Context(), cell.Birth{Source: []byte("~mem + event"), Nonce: nth(i), StepLimit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		list[i] = c
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the first one leaves what pools had
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	look := func(e *cell.Engine) {
		for _, c := range list {
			inspect(t, e, c)
		}
	}
	look(cell.New(store, cell.Options{Cells: 1})) // so that nothing else is made anew
	e = cell.New(store, cell.Options{})
	before := heap()
	look(e)
	read := (heap() - before) / cells
	if read > bound {
		t.Errorf("an idle cell takes %d bytes, expected at most %d", read, bound)
	}

	// Nothing that made a commit is kept either. What the engine remembers of its store
	// takes 10 MiB at most.
	store.keep = false
	for i, c := range list {
		submit(t, e, c, i, "1")
		tick(t, e, c, cell.Complete)
	}
	before = heap()
	runtime.KeepAlive(e)
	e = nil
	used := (before - heap()) / cells
	if used > bound+10<<20/cells {
		t.Errorf("a cell that was used takes %d bytes", used)
	}
	runtime.KeepAlive(store)
	runtime.KeepAlive(list)
	t.Logf("an idle cell takes %d bytes, with what is remembered of the store %d", read, used)
}
