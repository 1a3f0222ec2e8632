// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

// A heap is a slice with its first element before all other elements. Package container/heap would
// put each element into an interface, and a simulation has millions of elements.
type heapElement[T any] interface {
	*T
	isBefore(other *T) bool
}

// heapPush adds an element.
func heapPush[T any, P heapElement[T]](h []T, one T) []T {
	h = append(h, one)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !P(&h[i]).isBefore(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	return h
}

// heapPop removes the first element, and returns it.
func heapPop[T any, P heapElement[T]](h []T) (first T, rest []T) {
	var zero T
	last := len(h) - 1
	first, h[0], h[last] = h[0], h[last], zero
	siftDown[T, P](h[:last], 0)
	return first, h[:last]
}

// siftDown moves element i, which may come too early in the heap, down to its place.
func siftDown[T any, P heapElement[T]](h []T, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if P(&h[child]).isBefore(&h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
