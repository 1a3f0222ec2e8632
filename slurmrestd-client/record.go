// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import "time"

// A table has a reader for each member of an object that is read. Members that are not in the
// table are skipped, so a newer server's fields do no harm. A dialect is, for the most part, a set
// of tables.
type table[T any] map[string]field[T]

// field reads a member's value into t. A field consumes exactly that value.
type field[T any] func(s *scanner, t *T)

// readObject reads an object. A null does not change t.
func (fields table[T]) readObject(s *scanner, t *T) {
	for s.beginGroup('{'); s.hasNext('}'); {
		if read, wanted := fields[string(s.readKey())]; wanted {
			read(s, t)
		} else {
			s.skipValue()
		}
	}
}

// withFields returns a table that has more's rows beside or in place of its own.
func (fields table[T]) withFields(more table[T]) table[T] {
	all := make(table[T], len(fields)+len(more))
	for _, rows := range []table[T]{fields, more} {
		for name, row := range rows {
			all[name] = row
		}
	}
	return all
}

// readEach reads an array of objects, each into a new T, and hands them on. When yield returns an
// error, readEach stops with that error.
func readEach[T any](s *scanner, fields table[T], yield func(*T) error) {
	for s.beginGroup('['); s.hasNext(']'); {
		var t T
		s.kept = 0
		fields.readObject(s, &t)
		if s.err != nil {
			return
		}
		if err := yield(&t); err != nil {
			s.err = err
			return
		}
	}
}

// The rows. The argument of each returns the place in T for the value.

func textField[T any](at func(*T) *string) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.readText() }
}

func textsField[T any](at func(*T) *[]string) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.readTexts() }
}

func hostsField[T any](at func(*T) *string) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.readHostList() }
}

func numberField[T any](at func(*T) *Number) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.readNumber() }
}

// intField is for a count that is 0 when unset.
func intField[T any](at func(*T) *int64) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.readNumber().Or(0) }
}

func boolField[T any](at func(*T) *bool) field[T] {
	return func(s *scanner, t *T) { *at(t) = s.readBool() }
}

func timeField[T any](at func(*T) *time.Time) field[T] {
	return func(s *scanner, t *T) { *at(t) = instantOf(s.readNumber()) }
}

func limitField[T any](unit time.Duration, at func(*T) *Limit) field[T] {
	return func(s *scanner, t *T) { *at(t) = limitOf(s.readNumber(), unit) }
}

// objectField is for an object with members that belong to the same T: "nodes":{"total":2}.
func objectField[T any](fields table[T]) field[T] { return fields.readObject }

// objectOrPlain is for a member that is an object in some releases and a plain value in other releases.
func objectOrPlain[T any](object table[T], plain field[T]) field[T] {
	return func(s *scanner, t *T) {
		if s.peekToken() == '{' {
			object.readObject(s, t)
		} else {
			plain(s, t)
		}
	}
}
