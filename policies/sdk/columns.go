// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"time"
)

// columns turns rows to columns or back: wire_tables.go names each column once, and the same line serves both
// directions. The first error stays in err, and after an error no column is read or written.
type columns struct {
	decoding bool
	err      error
	base     time.Time         // moments are counted from base
	texts    []string          // by place; the first is empty
	places   map[string]uint32 // the reverse, while encoding
}

// maxElements bounds how many elements a list of lists may claim to hold.
const maxElements = 1 << 24

type integer interface {
	~int | ~int32 | ~int64 | ~uint8 | ~uint32 | ~uint64
}

// keepError keeps the first error.
func (c *columns) keepError(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// eachRow joins the rows with the values of a column, which is empty when all are zero.
func eachRow[R any, W comparable](c *columns, name string, rows []R, column *[]W, encode func(*R) W, decode func(*R, W)) {
	var zero W
	switch {
	case c.err != nil:
	case !c.decoding:
		for i := range rows {
			w := encode(&rows[i])
			if w != zero && *column == nil {
				*column = make([]W, len(rows))
			}
			if *column != nil {
				(*column)[i] = w
			}
		}
	case len(*column) == 0:
	case len(*column) != len(rows):
		c.keepError("column %s has %d values for %d rows", name, len(*column), len(rows))
	default:
		for i, w := range *column {
			decode(&rows[i], w)
		}
	}
}

// sameColumn is a column of values that travel as they are.
func sameColumn[R any, V comparable](c *columns, name string, rows []R, column *[]V, field func(*R) *V) {
	eachRow(c, name, rows, column,
		func(r *R) V { return *field(r) },
		func(r *R, v V) { *field(r) = v })
}

// numberColumn is a column of integers.
func numberColumn[R any, V, W integer](c *columns, name string, rows []R, column *[]W, field func(*R) *V) {
	eachRow(c, name, rows, column,
		func(r *R) W { return W(*field(r)) },
		func(r *R, w W) {
			v := V(w)
			if W(v) != w || (v < 0) != (w < 0) {
				c.keepError("column %s: %d is out of range", name, w)
			}
			*field(r) = v
		})
}

// textColumn is a column of texts.
func textColumn[R any](c *columns, name string, rows []R, column *[]uint32, field func(*R) *string) {
	eachRow(c, name, rows, column,
		func(r *R) uint32 { return c.textPlace(*field(r)) },
		func(r *R, place uint32) { *field(r) = c.textAt(name, place) })
}

// timeColumn is a column of times.
func timeColumn[R any](c *columns, name string, rows []R, column *[]int64, field func(*R) *time.Time) {
	eachRow(c, name, rows, column,
		func(r *R) int64 { return c.sinceBase(*field(r)) },
		func(r *R, ms int64) { *field(r) = c.timeAt(ms) })
}

// durationColumn is a column of durations.
func durationColumn[R any](c *columns, name string, rows []R, column *[]int64, field func(*R) *time.Duration) {
	eachRow(c, name, rows, column,
		func(r *R) int64 { return field(r).Milliseconds() },
		func(r *R, ms int64) { *field(r) = time.Duration(ms) * time.Millisecond })
}

// listColumn is the column of the lengths of lists. It returns the elements of all lists, one list after the other,
// for their own columns.
func listColumn[R, E any](c *columns, name string, rows []R, counts *[]uint32, field func(*R) *[]E) []E {
	total := 0
	eachRow(c, name, rows, counts,
		func(r *R) uint32 { total += len(*field(r)); return uint32(len(*field(r))) },
		func(_ *R, n uint32) { total += int(n) })
	if c.err == nil && total > maxElements {
		c.keepError("column %s: %d elements", name, total)
	}
	if c.err != nil || total == 0 {
		return nil
	}
	if !c.decoding {
		all := make([]E, 0, total)
		for i := range rows {
			all = append(all, *field(&rows[i])...)
		}
		return all
	}
	all := make([]E, total)
	at := 0
	for i, n := range *counts {
		if n > 0 {
			*field(&rows[i]) = all[at : at+int(n) : at+int(n)]
		}
		at += int(n)
	}
	return all
}

// textAt is the text at a place.
func (c *columns) textAt(column string, place uint32) string {
	if int(place) >= len(c.texts) {
		c.keepError("column %s: text %d of %d", column, place, len(c.texts))
		return ""
	}
	return c.texts[place]
}

// textPlace is the place of a text among the texts. A new text is added.
func (c *columns) textPlace(s string) uint32 {
	if s == "" {
		return 0 // most texts are empty
	}
	p, ok := c.places[s]
	if !ok {
		p = c.addText(s)
		c.places[s] = p
	}
	return p
}

// addText adds a text that is looked up by no other column to the texts.
func (c *columns) addText(s string) uint32 {
	c.texts = append(c.texts, s)
	return uint32(len(c.texts) - 1)
}

// sinceBase is a moment on the wire; at is the reverse.
func (c *columns) sinceBase(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	ms := t.UnixMilli() - c.base.UnixMilli()
	if ms >= 0 {
		ms++
	}
	return ms
}

func (c *columns) timeAt(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	if ms > 0 {
		ms--
	}
	return time.UnixMilli(c.base.UnixMilli() + ms).UTC()
}
