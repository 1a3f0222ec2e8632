// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"io"
	"net/http"
	"slices"
	"time"
)

// answer is the envelope of every answer of slurmrestd: all members but the records.
type answer struct {
	Release    string
	Cluster    string
	Errors     []complaint
	Warnings   []complaint
	Results    []complaint // of an update, signal or requeue: a complaint per job
	LastUpdate time.Time   // v0.0.40 on
	JobID      int64       // of a submission
	Message    string      // of the site's job_submit plugin
}

// complaint is an error or a warning of the server's.
type complaint struct {
	Number      int64
	Text        string
	Description string
	Source      string
}

// maxComplaints limits the complaints that are kept of one answer: a broken server may send them
// without end.
const maxComplaints = 64

// complaintFields cover all spellings of an error: errors[] of v0.0.38's jobs
// ("error_number"), of its submissions ("error_code"), of its nodes ("errno"), and
// results[] and status[] of later versions ("why", or an object for "error").
var complaintFields = table[complaint]{
	"error_number": intField(func(c *complaint) *int64 { return &c.Number }),
	"error_code":   intField(func(c *complaint) *int64 { return &c.Number }),
	"errno":        intField(func(c *complaint) *int64 { return &c.Number }),
	"error": objectOrPlain(table[complaint]{
		"code":    intField(func(c *complaint) *int64 { return &c.Number }),
		"string":  textField(func(c *complaint) *string { return &c.Text }),
		"message": textField(func(c *complaint) *string { return &c.Description }),
	}, textField(func(c *complaint) *string { return &c.Text })),
	"description": textField(func(c *complaint) *string { return &c.Description }),
	"why":         textField(func(c *complaint) *string { return &c.Description }),
	"source":      textField(func(c *complaint) *string { return &c.Source }),
}

// complaintsField reads an array of complaints, or (v0.0.45's bulk requeue) an array of arrays of
// complaints.
func complaintsField(at func(*answer) *[]complaint) field[answer] {
	var read field[answer]
	read = func(s *scanner, a *answer) {
		for s.beginGroup('['); s.hasNext(']'); {
			if s.peekToken() == '[' {
				read(s, a)
				continue
			}
			var c complaint
			complaintFields.readObject(s, &c)
			if all := at(a); len(*all) < maxComplaints {
				*all = append(*all, c)
			}
		}
	}
	return read
}

// slurmField is the member in which an answer names its sender; v0.0.38 spells the field "Slurm".
var slurmField = objectField(table[answer]{
	"release": textField(func(a *answer) *string { return &a.Release }),
	"cluster": textField(func(a *answer) *string { return &a.Cluster }),
})

var answerFields = table[answer]{
	"meta":                objectField(table[answer]{"slurm": slurmField, "Slurm": slurmField}),
	"errors":              complaintsField(func(a *answer) *[]complaint { return &a.Errors }),
	"warnings":            complaintsField(func(a *answer) *[]complaint { return &a.Warnings }),
	"results":             complaintsField(func(a *answer) *[]complaint { return &a.Results }),
	"status":              complaintsField(func(a *answer) *[]complaint { return &a.Results }),
	"last_update":         timeField(func(a *answer) *time.Time { return &a.LastUpdate }),
	"job_id":              readSubmitted,
	"job_submit_user_msg": textField(func(a *answer) *string { return &a.Message }),
}

// readSubmitted reads the id of a submission. v0.0.40's updates have a member of the same name that
// holds a text like "12_3"; the client does not read that member.
func readSubmitted(s *scanner, a *answer) {
	if s.peekToken() == '"' {
		s.skipString()
		return
	}
	a.JobID = s.readNumber().Or(0)
}

// recordsField is the table for an array of T under a name. yield is called with each T.
func recordsField[T any](name string, fields table[T], yield func(*T) error) table[answer] {
	return table[answer]{name: func(s *scanner, a *answer) {
		readEach(s, fields, yield)
		s.kept = 0
	}}
}

// decodeAnswer reads a whole answer. Its error is ErrMalformed, ErrTooLarge, the body's read error,
// or the error of a yield; the server's complaints are in the answer.
func decodeAnswer(body io.Reader, l limits, fields table[answer]) (answer, error) {
	s := newScanner(body, l)
	var a answer
	if c := s.peekToken(); s.err == nil && c != '{' {
		s.failScan("%q where an object should be", c)
	}
	fields.readObject(s, &a)
	return a, s.checkEnd()
}

// failureOf turns the server's complaints into an error; nil if there are none. A result with
// number 0 is a success.
func (a *answer) failureOf(c *call, status int) error {
	all := slices.Concat(a.Errors, complaintsOfFailure(a.Results))
	if len(all) == 0 {
		return nil
	}
	first := c.errorOf(status, all[0])
	for _, one := range all[1:] {
		first.others = append(first.others, c.errorOf(status, one))
	}
	return first
}

// complaintsOfFailure leaves out the results that went well.
func complaintsOfFailure(results []complaint) []complaint {
	var bad []complaint
	for _, one := range results {
		if one.Number != 0 {
			bad = append(bad, one)
		}
	}
	return bad
}

// errorOf makes the error for a complaint.
func (c *call) errorOf(status int, one complaint) *Error {
	e := &Error{
		Method: c.method, Path: c.path, Subject: c.subject, Status: status,
		Number: int(one.Number), Text: one.Text, Description: one.Description, Source: one.Source,
	}
	return e.classifyError()
}

// readRefusal reads the body of an answer that is not 200. A body that is no answer of Slurm's (a
// proxy's page, the router's single line of text) is quoted. slurm reports whether the body was an
// answer of Slurm's.
func (c *call) readRefusal(status int, body io.Reader, l limits) (err error, slurm bool) {
	l.body = min(l.body, maxRefusal)
	head := &firstBytes{src: body}
	a, parseErr := decodeAnswer(head, l, answerFields)
	if failure := a.failureOf(c, status); failure != nil {
		return failure, true
	}
	said := printableText(string(head.kept), 200)
	if parseErr == nil || said == "" { // JSON without a complaint
		said = http.StatusText(status)
	}
	e := c.errorOf(status, complaint{Description: said})
	e.Retryable = status == http.StatusServiceUnavailable
	e.foreign = parseErr != nil
	return e, parseErr == nil
}

// maxRefusal limits the bytes that are read of an answer with a status other than 200.
const maxRefusal = 1 << 20

// firstBytes remembers the first 512 bytes that are read through it.
type firstBytes struct {
	src  io.Reader
	kept []byte
}

func (f *firstBytes) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	if room := 512 - len(f.kept); room > 0 {
		f.kept = append(f.kept, p[:min(n, room)]...)
	}
	return n, err
}

// listWarnings joins the server's warnings, each on a line of its own.
func (a *answer) listWarnings() []string {
	var all []string
	for _, w := range a.Warnings {
		all = append(all, printableText(w.Description, 300))
	}
	return all
}
