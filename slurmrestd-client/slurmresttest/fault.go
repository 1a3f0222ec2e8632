// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"net/http"
	"strings"
	"time"
)

// Fault is a failure that a test orders. It applies to the next Times requests with its method and path,
// before any other check of the request.
type Fault struct {
	Method string // "" is any
	Path   string // part of the path; "" is any
	Times  int    // 0 is once

	// The first of these fields that is set decides which fault happens.

	Drop   bool          // the connection is closed without an answer
	Cut    int           // the connection is closed after so many bytes of the answer's body
	Slow   time.Duration // the answer comes later, but does come
	Status int           // HTTP status, with Body unchanged
	Slurm  int           // number of a Slurm error, in errors[] of a 200
	Body   string        // of Status
	After  bool          // with Drop: only after the request has been carried out
}

// Fail orders a failure. Several are taken in order.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, f)
}

// takeFault returns the first fault that matches, and lowers its Times.
func (s *Server) takeFault(r *http.Request) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.Path, f.Path) {
			continue
		}
		if s.faults[i].Times--; s.faults[i].Times == 0 {
			s.faults = append(s.faults[:i], s.faults[i+1:]...)
		}
		return f, true
	}
	return Fault{}, false
}

// inflictFault carries a fault out. It reports whether the request is still to be answered, and returns
// the writer for the answer.
func (s *Server) inflictFault(f Fault, w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
	switch {
	case f.Drop && !f.After:
		panic(http.ErrAbortHandler)
	case f.Drop:
		return &cutWriter{ResponseWriter: w}, true
	case f.Cut > 0:
		return &cutWriter{ResponseWriter: w, left: f.Cut}, true
	case f.Slow > 0:
		select {
		case <-time.After(f.Slow):
		case <-r.Context().Done():
		}
		return w, true
	case f.Status != 0:
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Body))
	case f.Slurm != 0:
		d := s.dialectOf(r)
		s.writeAnswer(w, http.StatusOK, d.wrapResult(s, object{"errors": d.listComplaints(newRefusal(f.Slurm, "ordered"))}))
	}
	return w, false
}

// cutWriter lets so many bytes of the body through and then kills the connection.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	if c.left > 0 {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		if flusher, ok := c.ResponseWriter.(http.Flusher); ok {
			flusher.Flush()
		}
	}
	panic(http.ErrAbortHandler)
}
