// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

// A panel of op(A) has 32 rows of f32, or 16 of f64: 128 bytes for each k. A panel of op(B) has panelColumns columns. The sums of
// an A panel with a B panel lie together, column after column.
const (
	panelBytes   = 128
	panelColumns = 12
	// chunkBytes is the size of a chunk of an A panel, which is multiplied while the processor's caches have it. The sums
	// are kept from chunk to chunk: the order of the sum is the same for any size.
	chunkBytes = 32 << 10
	chunk      = chunkBytes / panelBytes // in k
	// keptB bounds sharedPanels, which are kept for the tiles below.
	keptB = 16 << 20
)

// element is the type in which a product is computed.
type element interface{ ~float32 | ~float64 }

// tile computes the blocks of a worker.
type tile[T element] struct {
	w     *work
	rows  int // of a panel of op(A)
	alpha T
	beta  T

	a    []T // a chunk of op(A): panel after panel
	b    []T // a chunk of op(B); nil with a pool
	sums []T // A panel by A panel, in each of them B panel by B panel

	pool   *panelPool[T]    // of op(B), or nil
	shared *sharedPanels[T] // of the place before, or nil

	// columns of a panel on their way from and to memory
	old, bias, result []T

	multiplyPanels func(n int, a, b, sums *T)
	finishColumn   func(n int, result, sums, old, bias *T, alpha, beta T)
}

// makeTiles returns a function that makes a tile for each worker of a launch.
func makeTiles(w *work) func() runner {
	if w.x.double {
		pool := newPanelPool[float64](w.x)
		return func() runner { return newTile(w, pool, w.by.multiply64, w.by.finish64) }
	}
	pool := newPanelPool[float32](w.x)
	return func() runner { return newTile(w, pool, w.by.multiply32, w.by.finish32) }
}

type runner interface{ multiplyTile(at tilePosition) }

func newTile[T element](w *work, pool *panelPool[T], multiply func(n int, a, b, sums *T), finish func(n int, result, sums, old, bias *T, alpha, beta T)) runner {
	t := &tile[T]{w: w, pool: pool, rows: panelBytes / sizeOf[T](), alpha: T(w.x.alpha), beta: T(w.x.beta), multiplyPanels: multiply, finishColumn: finish}
	k := int(min(w.x.k, chunk))
	t.a = alignedSlice[T](tileRows * k)
	if pool == nil {
		t.b = alignedSlice[T](int(countPanelColumns(w.x)) * k)
	}
	t.sums = alignedSlice[T](tileRows * tileColumns)
	t.old, t.bias, t.result = alignedSlice[T](t.rows), alignedSlice[T](t.rows), alignedSlice[T](t.rows)
	return t
}

// multiplyTile computes the tile of D at a place.
func (t *tile[T]) multiplyTile(at tilePosition) {
	x, m := t.w.x, &t.w.members[at.member]
	rows, columns := int(min(tileRows, x.m-at.row)), int(min(tileColumns, x.n-at.column))
	if t.pool != nil {
		t.shared = t.pool.switchPanels(t.shared, at)
	}
	clear(t.sums)
	for k := 0; k < int(x.k); k += chunk {
		n := int(min(chunk, x.k-uint64(k)))
		packPanels(t.a, source{&x.a, m.a, x.a.turned}, t.rows, int(at.row), rows, k, n)
		t.multiplyChunk(t.packColumns(at, columns, k, n), rows, columns, n)
	}
	t.storeTile(at, rows, columns)
}

// packColumns returns the panels of op(B) for n k from k on, which this worker packs unless another worker has.
func (t *tile[T]) packColumns(at tilePosition, columns, k, n int) []T {
	x := t.w.x
	from := source{&x.b, t.w.members[at.member].b, !x.b.turned}
	if t.pool == nil {
		packPanels(t.b, from, panelColumns, int(at.column), columns, k, n)
		return t.b
	}
	b := t.shared.values[int(countPanelColumns(x))*k:]
	t.shared.packed[k/chunk].Do(func() { packPanels(b, from, panelColumns, int(at.column), columns, k, n) })
	return b
}

// multiplyChunk adds the products of n k to the sums of a tile.
func (t *tile[T]) multiplyChunk(b []T, rows, columns, n int) {
	for j := 0; j*panelColumns < columns; j++ {
		for i := 0; i*t.rows < rows; i++ {
			t.multiplyPanels(n, &t.a[i*t.rows*n], &b[j*panelColumns*n], &t.sums[t.sumsAt(i, j)])
		}
	}
}

// sumsAt is where the sums of A panel i and B panel j begin.
func (t *tile[T]) sumsAt(i, j int) int { return (i*tileColumns + j*panelColumns) * t.rows }

// storeTile writes the tile of D.
func (t *tile[T]) storeTile(at tilePosition, rows, columns int) {
	x, m := t.w.x, &t.w.members[at.member]
	var old, bias *T
	if x.readsC {
		old = &t.old[0]
	}
	if x.addsBias {
		bias = &t.bias[0]
	}
	for i := 0; i*t.rows < rows; i++ {
		row := at.row + uint64(i*t.rows)
		n := min(t.rows, rows-i*t.rows)
		if x.addsBias {
			loadElements(t.bias[:n], m.bias, row, x.bias.kind)
		}
		for j := range columns {
			column := at.column + uint64(j)
			if x.readsC {
				loadElements(t.old[:n], m.c, row+column*x.c.leading, x.c.kind)
			}
			t.finishColumn(t.rows, &t.result[0], &t.sums[t.sumsAt(i, 0)+j*t.rows], old, bias, t.alpha, t.beta)
			storeElements(m.d, row+column*x.d.leading, x.d.kind, t.result[:n])
		}
	}
}
