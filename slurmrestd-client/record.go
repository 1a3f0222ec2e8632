// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import "time"

// A table says which members of an object are read, and into what. Members that are not in the
// table are skipped, so a newer server's fields do no harm. A dialect is, for the most part, a set
// of tables.
type table[T any] map[string]field[T]

// field reads a member's value into t. A field consumes exactly that value.
type field[T any] func(s *scanner, t *T)

// read reads an object. A null does not change t.
func (fields table[T]) read(s *scanner, t *T) {
	for s.begin('{'); s.next('}'); {
		if read, wanted := fields[string(s.key())]; wanted {
			read(s, t)
		} else {
			s.skip()
		}
	}
}

// with returns a table that has more's rows beside or in place of its own.
func (fields table[T]) with(more table[T]) table[T] {
	all := make(table[T], len(fields)+len(more))
	for _, rows := range []table[T]{fields, more} {
		for name, row := range rows {
			all[name] = row
		}
	}
	return all
}

// each reads an array of objects, each into a new T, and hands them on. When yield returns an
// error, each stops with that error.
func each[T any](s *scanner, fields table[T], yield func(*T) error) {
	for s.begin('['); s.next(']'); {
		var t T
		s.held = 0
		fields.read(s, &t)
		if s.err != nil {
			return
		}
		if err := yield(&t); err != nil {
			s.err = err
			return
		}
	}
}

// The rows. Each takes a function that says where in T the value goes.

func textField[T any](at func(*T) *string) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.text() }
}

func textsField[T any](at func(*T) *[]string) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.texts() }
}

func hostsField[T any](at func(*T) *string) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.hostlist() }
}

func numberField[T any](at func(*T) *Number) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.number() }
}

// intField is for a count that is 0 when unset.
func intField[T any](at func(*T) *int64) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.number().Or(0) }
}

func boolField[T any](at func(*T) *bool) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.boolean() }
}

func timeField[T any](at func(*T) *time.Time) field[T] {
	return func(s *scanner, t *T) { *at(t) = instant(s.number()) }
}

func limitField[T any](unit time.Duration, at func(*T) *Limit) field[T] {
	return func(s *scanner, t *T) { *at(t) = limitOf(s.number(), unit) }
}

// group is for an object with members that belong to the same T: "nodes":{"total":2}.
func group[T any](fields table[T]) field[T] { return fields.read }

// either is for a member that is an object in some releases and a plain value in other releases.
func either[T any](object table[T], plain field[T]) field[T] {
	return func(s *scanner, t *T) {
		if s.peek() == '{' {
			object.read(s, t)
		} else {
			plain(s, t)
		}
	}
}
