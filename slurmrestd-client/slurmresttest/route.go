// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// texts are Slurm's own words for the numbers that the fake uses.
var texts = map[int]string{
	0:    "No error",
	-1:   "Unspecified error",
	1007: "Protocol authentication error",
	1900: "No change in data",
	2002: "Access/permission denied",
	2014: "Requested node configuration is not available",
	2017: "Invalid job id specified",
	2018: "Invalid node name specified",
	2021: "Job/step already completing or completed",
	2024: "Job is pending execution",
	2028: "Invalid node state specified",
	2037: "Requested operation is presently disabled",
	2039: "Only batch jobs are accepted or processed",
	2053: "Requested reservation is invalid",
	2073: "Job is no longer pending execution",
	2084: "Job has already finished",
	2180: "Invalid node state transition",
	7000: "Unable to connect to database",
	2103: "Job update not available right now, the DB index is being set, try again in a bit",
	9000: "Query empty or not RFC7320 compliant",
	9001: "Failure during parsing",
}

// refusal is an error that slurmctld answers.
type refusal struct {
	number int
	status int    // of HTTP; 0: 500
	about  string // "node", "job submit": v0.0.38 writes some in a way of its own
	why    string
}

func newRefusal(number int, why string, args ...any) *refusal {
	return &refusal{number: number, why: fmt.Sprintf(why, args...)}
}

// ServeHTTP answers as slurmrestd does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		User: r.Header.Get("X-SLURM-USER-NAME"), Body: string(raw),
	})
	s.mu.Unlock()
	if fault, ok := s.takeFault(r); ok {
		var goOn bool
		if w, goOn = s.inflictFault(fault, w, r); !goOn {
			return
		}
	}
	s.routeRequest(w, r, raw)
}

// routeRequest checks the token and the version, in the order of slurmrestd.
func (s *Server) routeRequest(w http.ResponseWriter, r *http.Request, raw []byte) {
	token := r.Header.Get("X-SLURM-USER-TOKEN")
	d := s.dialectOf(r)
	switch {
	case s.opt.Token != "" && token == "":
		writePlain(w, http.StatusUnauthorized, "Authentication failure")
	case d == nil:
		writePlain(w, http.StatusNotFound, noSuchURL)
	case token != s.opt.Token && !strings.Contains(r.URL.Path, "/ping"):
		// slurmrestd does not look at the token; the daemon that slurmrestd asks does.
		no := d.badToken(strings.HasPrefix(r.URL.Path, "/slurmdb/"))
		s.writeAnswer(w, d.statusOf(no), d.wrapResult(s, object{"errors": d.listComplaints(no)}))
	default:
		s.answerRequest(w, r, d, raw)
	}
}

const noSuchURL = "Unable find requested URL. Please view /openapi/v3 for API reference."

// writePlain answers as the router itself does, with plain text, and then closes the connection.
func writePlain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Connection", "Close")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// dialectOf returns the dialect of the path's version, or nil if the version is not served.
func (s *Server) dialectOf(r *http.Request) dialect {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) < 3 || !slices.Contains(s.versions, parts[2]) {
		return nil
	}
	if parts[2] == slurmrest.V0038 {
		return oldVersion{}
	}
	return modernVersion{version: parts[2]}
}

// answerRequest carries out the request, under the lock, and then lets a job react.
func (s *Server) answerRequest(w http.ResponseWriter, r *http.Request, d dialect, raw []byte) {
	s.mu.Lock()
	result, refused, found := s.handleRequest(r, d, raw)
	react := s.reactionTo(r)
	s.mu.Unlock()
	switch {
	case !found:
		writePlain(w, http.StatusNotFound, noSuchURL)
	case refused != nil && refused.number == 1900 && d.noChange() == http.StatusNotModified:
		w.WriteHeader(http.StatusNotModified)
	case refused != nil:
		result = d.wrapResult(s, object{"errors": d.listComplaints(refused)})
		s.writeAnswer(w, d.statusOf(refused), result)
	default:
		s.writeAnswer(w, http.StatusOK, d.wrapResult(s, result))
	}
	if refused == nil && react != nil {
		react()
	}
}

// question is a request, taken apart.
type question struct {
	*http.Request
	dialect
	rest []string // of the path, after the kind
	raw  []byte   // the body
}

// handlers is the routing table: method, slurm or slurmdb, kind, and the element after the kind unless that
// is an id. The handlers are called with s.mu held.
var handlers = map[string]func(*Server, question) (object, *refusal){
	"GET slurm ping":          func(_ *Server, q question) (object, *refusal) { return q.pingObject(), nil },
	"GET slurm diag":          func(s *Server, q question) (object, *refusal) { return object{"statistics": q.diagObject(s)}, nil },
	"GET slurm jobs":          (*Server).listJobs,
	"GET slurm job":           (*Server).getJob,
	"POST slurm job submit":   (*Server).submitJob,
	"POST slurm job":          (*Server).updateJob,
	"DELETE slurm job":        (*Server).signalJob,
	"POST slurm jobs requeue": (*Server).requeueJobs,
	"GET slurm nodes": func(s *Server, q question) (object, *refusal) {
		return object{"nodes": renderEach(s.nodes, q.nodeObject)}, nil
	},
	"GET slurm node":  (*Server).getNode,
	"POST slurm node": (*Server).updateNode,
	"GET slurm partitions": func(s *Server, q question) (object, *refusal) {
		return object{"partitions": renderEach(s.partitions, q.partitionObject)}, nil
	},
	"GET slurm reservations": func(s *Server, q question) (object, *refusal) {
		return object{"reservations": renderEach(s.reservations, q.reservationObject)}, nil
	},
	"POST slurm reservation":   (*Server).makeReservation,
	"DELETE slurm reservation": (*Server).deleteReservation,
	"GET slurmdb qos": func(s *Server, q question) (object, *refusal) {
		return object{q.qosName(): renderEach(s.qos, q.qosRecord)}, nil
	},
	"GET slurmdb clusters": func(s *Server, _ question) (object, *refusal) {
		return object{"clusters": []any{object{"name": s.opt.Cluster}}}, nil
	},
}

// handleRequest finds the handler and calls the handler. Caller holds s.mu.
func (s *Server) handleRequest(r *http.Request, d dialect, raw []byte) (result object, no *refusal, found bool) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	what := r.Method + " " + path[0] + " " + path[2]
	rest := path[3:]
	if len(rest) > 0 && (rest[0] == "submit" || path[2] == "jobs") {
		what += " " + rest[0]
	}
	handler, found := handlers[what]
	newest := what == "POST slurm jobs requeue" || strings.HasSuffix(what, " slurm reservation")
	if !found || newest && !d.canRequeue() || what == "POST slurm node" && !d.canUpdateNode() {
		return nil, nil, false
	}
	result, no = handler(s, question{r, d, rest, raw})
	if no != nil {
		no.about = strings.TrimPrefix(what, r.Method+" slurm ")
	}
	return result, no, true
}

func renderEach[T any](all []T, render func(T) object) []any {
	list := []any{}
	for _, one := range all {
		list = append(list, render(one))
	}
	return list
}

// listJobs answers with all jobs, or with "no change". slurmctld compares whole seconds and rather
// reports a change twice than misses a change.
func (s *Server) listJobs(q question) (object, *refusal) {
	if since := q.URL.Query().Get("update_time"); since != "" {
		unix, ok := q.parseSince(since)
		if !ok {
			return nil, newRefusal(9000, "Parsing of %s for timestamp failed", since)
		}
		if unix-1 >= s.lastChange.Unix() {
			if q.noChange() == http.StatusNotModified {
				return nil, newRefusal(1900, "")
			}
			return object{"jobs": []any{}, "last_update": countObject(0), "warnings": []any{
				object{"description": "No job changes since update_time", "source": "fake"},
			}}, nil
		}
	}
	return q.jobList(s, s.jobsInOrder()), nil
}

func (s *Server) getJob(q question) (object, *refusal) {
	ref, no := refOf(q.rest)
	if no != nil {
		return nil, no
	}
	var found []*slurmrest.Job
	for _, j := range s.jobsInOrder() {
		if j.ID == ref.ID || j.Array.JobID == ref.ID || j.Het.JobID == ref.ID {
			found = append(found, j)
		}
	}
	if len(found) == 0 {
		return nil, &refusal{number: 2017, status: http.StatusNotFound, why: "Unable to query JobId=" + ref.String()}
	}
	return q.jobList(s, found), nil
}

func refOf(rest []string) (slurmrest.Ref, *refusal) {
	if len(rest) != 1 {
		return slurmrest.Ref{}, newRefusal(9000, "no job id")
	}
	ref, err := slurmrest.ParseRef(rest[0])
	if err != nil {
		return ref, newRefusal(2017, "%v", err)
	}
	return ref, nil
}

// findJob returns the only job that a reference names.
func (s *Server) findJob(ref slurmrest.Ref) (*slurmrest.Job, *refusal) {
	for _, j := range s.jobsInOrder() {
		switch {
		case ref.IsTask() && j.Array.JobID == ref.ID && j.Array.Task == slurmrest.Num(ref.Index),
			ref.IsComponent() && j.Het.JobID == ref.ID && j.Het.Offset == ref.Index,
			!ref.IsTask() && !ref.IsComponent() && j.ID == ref.ID:
			return j, nil
		}
	}
	return nil, &refusal{number: 2017, status: http.StatusNotFound, why: "no job " + ref.String()}
}

// reactionTo returns the job's reaction to the signal in a request, or nil. Caller holds s.mu; the
// function returned is called without s.mu.
func (s *Server) reactionTo(r *http.Request) func() {
	rest := strings.Split(strings.Trim(r.URL.Path, "/"), "/")[3:]
	signal := r.URL.Query().Get("signal")
	ref, no := refOf(rest)
	if r.Method != http.MethodDelete || no != nil || s.onSignal == nil || signal == "KILL" || signal == "TERM" {
		return nil
	}
	job, no := s.findJob(ref)
	if no != nil {
		return nil
	}
	id, react := job.ID, s.onSignal
	return func() { react(id, signal) }
}

// parseObject reads a request's object.
func parseObject(raw []byte) (object, *refusal) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, &refusal{number: 9001, status: http.StatusBadRequest, why: err.Error()}
	}
	return o, nil
}
