// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

// source is an operand in memory. along: the elements of a row of op(A), or of a column of op(B), follow each other in k; else
// elements of the same k follow each other.
type source struct {
	*matrix
	bytes []byte
	along bool
}

// packPanels copies rows of op(A), or columns of op(B), into panels of width: count of them from first on, n k from k
// on. The last panel is filled up with zeros.
func packPanels[T element](to []T, s source, width, first, count, k, n int) {
	for at := 0; at < count; at += width {
		panel := to[at*n:][:width*n]
		w := min(width, count-at)
		if w < width {
			clear(panel)
		}
		if s.along {
			packAlong(panel, s, width, first+at, w, k, n)
		} else {
			packAcross(panel, s, width, first+at, w, k, n)
		}
	}
}

// packAcross packs a panel in which elements of the same k follow each other.
func packAcross[T element](panel []T, s source, width, first, w, k, n int) {
	for i := range n {
		loadElements(panel[i*width:][:w], s.bytes, uint64(first)+uint64(k+i)*s.leading, s.kind)
	}
}

// packAlong packs a panel in which elements with ascending k follow each other.
func packAlong[T element](panel []T, s source, width, first, w, k, n int) {
	var row [chunk]T
	for i := range w {
		loadElements(row[:n], s.bytes, uint64(k)+uint64(first+i)*s.leading, s.kind)
		at := i
		for _, v := range row[:n] {
			panel[at] = v
			at += width
		}
	}
}

// loadElements reads elements that follow each other, from the element at on.
func loadElements[T element](to []T, from []byte, at uint64, kind elementType) {
	from = from[at*kind.elementSize():][:uint64(len(to))*kind.elementSize()]
	switch kind {
	case float16s:
		for i := range to {
			to[i] = T(decodeHalf(uint16(from[2*i]) | uint16(from[2*i+1])<<8))
		}
	case bfloat16s:
		for i := range to {
			to[i] = T(decodeBrain(uint16(from[2*i]) | uint16(from[2*i+1])<<8))
		}
	default:
		copy(bytesOf(to), from)
	}
}

// storeElements writes elements that follow each other, from the element at on.
func storeElements[T element](to []byte, at uint64, kind elementType, from []T) {
	to = to[at*kind.elementSize():][:uint64(len(from))*kind.elementSize()]
	switch kind {
	case float16s:
		for i, v := range from {
			h := encodeHalf(float32(v))
			to[2*i], to[2*i+1] = byte(h), byte(h>>8)
		}
	case bfloat16s:
		for i, v := range from {
			h := encodeBrain(float32(v))
			to[2*i], to[2*i+1] = byte(h), byte(h>>8)
		}
	default:
		copy(to, bytesOf(from))
	}
}
