package bindb

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// image is the state of a root after one durable batch, in memory. It never
// changes, so that any number of readers use it at any time without a lock; the
// owner makes the next one from it by copying only what a batch replaces.
//
// A file that no batch has changed since the root was opened is loaded when it is
// first used. Its bytes on disk are those of the open until then, because a
// mutation loads a file before it writes to it.
type image struct {
	r     *Root
	files []*fileImage // by family number; nil: as it was when the root was opened
	queue atomic.Pointer[jobQueue]
}

// fileImage is one file of an image: its records in chunks, without the header,
// and the chunks in pages. A record lies in one chunk. The memory behind the
// length belongs to the owner, which appends there without copying: no reader of
// this image looks at it.
type fileImage struct {
	size  int64 // bytes, with the header
	count uint32
	pages []*page
}

type page [pageChunks][]byte

// A chunk has 1<<shift units of its family: records, or bytes of a payload file.
// The chunks are small because replacing a record copies one.
const (
	recordShift  = 5
	payloadShift = 12
	pageShift    = 6
	pageChunks   = 1 << pageShift
)

// chunkBytes is the length of a chunk.
func (f *family) chunkBytes() int { return f.size << f.shift }

// chunk is the chunk with the given number.
func (x *fileImage) chunk(n int) []byte { return x.pages[n>>pageShift][n&(pageChunks-1)] }

func (img *image) root() *Root  { return img.r }
func (img *image) base() Reader { return img }

// file returns the content of a file, which is read from disk when nobody has
// used it yet.
func (img *image) file(f *family) (*fileImage, error) {
	if x := img.files[f.no]; x != nil {
		return x, nil
	}
	l := &img.r.loads[f.no]
	if x := l.file.Load(); x != nil {
		return x, nil
	}
	return l.load(img.r, f)
}

func (img *image) size(f *family) (int64, error) {
	n := img.r.loads[f.no].size
	if x := img.files[f.no]; x != nil {
		n = x.size
	}
	if n < HeaderSize {
		return 0, shortFile(f, n)
	}
	return n, nil
}

func (img *image) count(f *family) (uint32, error) {
	if x := img.files[f.no]; x != nil {
		return x.count, nil
	}
	n, err := img.size(f)
	if err != nil {
		return 0, err
	}
	return f.count(n)
}

func (img *image) record(f *family, i uint32) ([]byte, error) {
	x := img.files[f.no]
	if x == nil {
		var err error
		if x, err = img.file(f); err != nil {
			return nil, err
		}
	}
	if i >= x.count {
		return nil, nil
	}
	c := x.chunk(int(i >> recordShift))
	at := int(i&(1<<recordShift-1)) * f.size
	return c[at : at+f.size : at+f.size], nil
}

func (img *image) readAt(f *family, p []byte, off int64) error {
	x, err := img.file(f)
	if err != nil {
		return err
	}
	if off < 0 || off+int64(len(p)) > x.size {
		return outside(f, len(p), off)
	}
	if off < HeaderSize {
		n := copy(p, header[off:])
		p, off = p[n:], off+int64(n)
	}
	body, size := int(off-HeaderSize), f.chunkBytes()
	for n, at := body/size, body%size; len(p) > 0; n, at = n+1, 0 {
		p = p[copy(p, x.chunk(n)[at:]):]
	}
	return nil
}

// with returns the image after a batch that is durable.
func (img *image) with(tx *Tx, j *journal) *image {
	next := &image{r: img.r, files: slices.Clone(img.files)}
	for _, jf := range j.files {
		x := img.files[jf.f.no]
		if x == nil {
			x = img.r.loads[jf.f.no].file.Load() // by the mutation that writes to it
		}
		next.files[jf.f.no] = x.with(jf.f, jf.images, tx.writes[jf.f.no].appended)
	}
	return next
}

// with replaces whole records, which come in the order of their offsets, and
// appends. Only the newest image of a file may be continued.
func (x *fileImage) with(f *family, replaced []journalImage, appended []byte) *fileImage {
	next := &fileImage{size: x.size, count: x.count, pages: x.pages}
	if len(replaced) > 0 {
		next.pages = slices.Clone(x.pages)
	}
	size := f.chunkBytes()
	own, ownPage := -1, -1 // the chunk and the page that were copied last
	for _, r := range replaced {
		body := int(r.off - HeaderSize)
		n := body / size
		if p := n >> pageShift; p != ownPage {
			copied := *next.pages[p]
			next.pages[p], ownPage = &copied, p
		}
		if n != own {
			// All of it, for the tail belongs to the owner.
			next.pages[ownPage][n&(pageChunks-1)], own = slices.Clone(next.chunk(n)), n
		}
		copy(next.chunk(n)[body%size:], r.after)
	}
	for len(appended) > 0 {
		body := int(next.size - HeaderSize)
		n := body / size
		if n>>pageShift == len(next.pages) {
			next.pages = append(next.pages, new(page))
		}
		if body%size == 0 {
			next.pages[n>>pageShift][n&(pageChunks-1)] = make([]byte, size)
		}
		k := copy(next.chunk(n)[body%size:], appended)
		next.size += int64(k)
		appended = appended[k:]
	}
	next.count = uint32((next.size - HeaderSize) / int64(f.size))
	return next
}

// load is a file as it was when the owner opened the root.
type load struct {
	size int64 // bytes, with the header
	mu   sync.Mutex
	file atomic.Pointer[fileImage]
}

// load reads the file. A failure is not remembered.
func (l *load) load(r *Root, f *family) (*fileImage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.file.Load(); x != nil {
		return x, nil
	}
	file, err := r.file(f)
	if err != nil {
		return nil, err
	}
	if l.size < HeaderSize {
		return nil, shortFile(f, l.size)
	}
	if _, err := f.count(l.size); f.fixed && err != nil {
		return nil, err
	}
	x := &fileImage{size: l.size, count: uint32((l.size - HeaderSize) / int64(f.size))}
	body, chunk := l.size-HeaderSize, int64(f.chunkBytes())
	block := chunk << pageShift
	x.pages = make([]*page, (body+block-1)/block)
	err = inParallel(len(x.pages), func(i int) error {
		from := int64(i) * block
		n := min(block, body-from)
		// One piece of memory a page; the last one ends with a whole chunk, into
		// which the owner appends.
		b := make([]byte, (n+chunk-1)/chunk*chunk)
		if err := readFull(file, f.file, b[:n], HeaderSize+from); err != nil {
			return err
		}
		p := new(page)
		for c := range p {
			if len(b) == 0 {
				break
			}
			p[c], b = b[:chunk:chunk], b[chunk:]
		}
		x.pages[i] = p
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := r.verifyLoaded(f, x); err != nil {
		return nil, err
	}
	l.file.Store(x)
	return x, nil
}

// verifyLoaded compares a file that was just loaded with its checksums, if a clean
// stop has left them.
func (r *Root) verifyLoaded(f *family, x *fileImage) error {
	if r.sealed == nil {
		return nil
	}
	img := &image{r: r, files: make([]*fileImage, len(families))}
	img.files[f.no] = x
	return firstOf(r.sealed.verifyFile(img, f, 1))
}

// inParallel calls fn for 0..n-1 on all processors and returns the error of the
// smallest argument that failed.
func inParallel(n int, fn func(i int) error) error {
	width := min(n, runtime.GOMAXPROCS(0))
	if width <= 1 {
		for i := range n {
			if err := fn(i); err != nil {
				return err
			}
		}
		return nil
	}
	var next, failed atomic.Int64
	errs := make([]error, n)
	var wg sync.WaitGroup
	for range width {
		wg.Go(func() {
			for failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = fn(i); errs[i] != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
