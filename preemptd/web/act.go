// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// maxActs is how many requests with a user's tokens are carried out at a time; each may ask Slurm.
const maxActs = 4

// actTakes is how long an action's request may take.
const actTakes = 30 * time.Second

// refusal is the body of an answer that refuses a request.
type refusal struct {
	Kind  string `json:"kind"`
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

func refuseRequest(w http.ResponseWriter, code int, why refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(why) // the browser has gone
}

// userRequest is a request with a token: the user, and the server that carries requests out.
type userRequest struct {
	*http.Request
	requests Requests
	until    time.Time
}

// withToken lets a request with a right token through, as a call of that user's.
func (s *Server) withToken(next func(http.ResponseWriter, *userRequest) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		uid, until, err := s.identifyCaller(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuseRequest(w, http.StatusUnauthorized, refusal{Kind: "token", Error: err.Error(), Hint: "singctl token makes one"})
			return
		}
		now := s.opt.State()
		if now.Requests == nil {
			refuseRequest(w, http.StatusServiceUnavailable, refusal{Kind: "waits", Error: "this preemptd does not work now; ask the one that does"})
			return
		}
		if !s.acts.enterSlot(uid) {
			refuseRequest(w, http.StatusServiceUnavailable, refusal{Kind: "busy", Error: "too many of your requests are under way; try again"})
			return
		}
		defer s.acts.leaveSlot(uid)
		ctx, cancel := context.WithTimeout(munge.WithCaller(r.Context(), munge.Caller{UID: uid, From: "web"}), actTakes)
		defer cancel()
		if err := next(w, &userRequest{r.WithContext(ctx), now.Requests, until}); err != nil {
			refuseError(w, err)
		}
	}
}

// slots count the requests that are under way, by user: a user with many requests does not keep other users waiting.
type slots struct {
	mu   sync.Mutex
	used map[uint32]int
}

// enterSlot counts a request in, unless its user has too many.
func (s *slots) enterSlot(uid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[uid] >= maxActs {
		return false
	}
	s.used[uid]++
	return true
}

func (s *slots) leaveSlot(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[uid]--; s.used[uid] == 0 {
		delete(s.used, uid)
	}
}

var (
	errNoToken = errors.New("this needs a token: Authorization: Bearer TOKEN")
	errPlain   = errors.New("a token must not travel over plain HTTP: use https, or an address of preemptd's own machine")
)

func (s *Server) identifyCaller(r *http.Request) (uid uint32, until time.Time, err error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return 0, until, errNoToken
	}
	if r.TLS == nil && !fromHere(r) {
		return 0, until, errPlain
	}
	return s.opt.Keys.Check(token)
}

// fromHere reports whether the request came to this machine's loopback address: then the request
// was not on a network in plain text, unless an earlier hop was.
func fromHere(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// failures are the HTTP statuses for the errors of package api.
var failures = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.PermissionDenied: http.StatusForbidden, codes.NotFound: http.StatusNotFound,
	codes.Aborted: http.StatusConflict, codes.FailedPrecondition: http.StatusServiceUnavailable, codes.DeadlineExceeded: http.StatusGatewayTimeout,
}

func refuseError(w http.ResponseWriter, err error) {
	st := status.Convert(err)
	why := refusal{Kind: "internal", Error: st.Message()}
	for _, d := range st.Details() {
		if p, ok := d.(*rpc.Problem); ok {
			why = refusal{p.GetKind(), p.GetText(), p.GetHint()}
		}
	}
	code, ok := failures[st.Code()]
	if !ok {
		code = http.StatusInternalServerError
	}
	refuseRequest(w, code, why)
}

// meJSON is the answer to /api/v1/me.
type meJSON struct {
	Name     string   `json:"name"`
	Operator bool     `json:"operator"`
	Until    int64    `json:"until"` // of the token
	Problems []string `json:"problems"`
}

func (s *Server) getMe(w http.ResponseWriter, r *userRequest) error {
	name, operator, err := r.requests.Who(r.Context())
	if err != nil {
		return err
	}
	reply, err := r.requests.Status(r.Context(), &rpc.StatusRequest{})
	if err != nil {
		return err
	}
	d, err := newDocument(meJSON{name, operator, r.until.Unix(), append([]string{}, reply.GetProblems()...)})
	if err == nil {
		d.sendTo(w, r.Request)
	}
	return err
}

func (s *Server) getAction(w http.ResponseWriter, r *userRequest) error {
	id, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if err != nil {
		return rpc.Status(rpc.Errorf(rpc.ErrInvalid, "an action has a number"))
	}
	a, err := r.requests.Show(r.Context(), &rpc.ShowRequest{Id: id})
	if err != nil {
		return err
	}
	return sendAction(w, http.StatusOK, a)
}

// actJSON is the body of a POST.
type actJSON struct {
	Nodes     []string `json:"nodes"`
	Avoid     []string `json:"avoid"`
	NodeCount int64    `json:"node_count"`
	GPUs      int64    `json:"gpus"`
	QOS       string   `json:"qos"`
	Hold      bool     `json:"hold"`
	Reason    string   `json:"reason"`
}

func (s *Server) postAct(w http.ResponseWriter, r *userRequest) error {
	var want actJSON
	if err := readJSON(r.Request, &want); err != nil {
		return rpc.Status(err)
	}
	a, err := r.requests.Act(r.Context(), &rpc.ActRequest{
		Kind: r.PathValue("verb"), Job: r.PathValue("job"), Nodes: want.Nodes, Avoid: want.Avoid, NodeCount: want.NodeCount, Gpus: want.GPUs,
		Qos: want.QOS, Hold: want.Hold, Reason: want.Reason,
	})
	if err != nil {
		return err
	}
	return sendAction(w, http.StatusAccepted, a)
}

// readJSON reads a body of a single object. A form of another site could not say that its body is
// JSON without asking first.
func readJSON(r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return rpc.Errorf(rpc.ErrInvalid, "want Content-Type: application/json")
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return rpc.Errorf(rpc.ErrInvalid, "body: %s", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return rpc.Errorf(rpc.ErrInvalid, "body: want one object")
	}
	return nil
}

// fullActionJSON is an action for users that may know of the action.
type fullActionJSON struct {
	actionJSON
	Problem string     `json:"problem"`
	Lines   []lineJSON `json:"lines"`
}

type lineJSON struct {
	At      int64  `json:"at"`
	State   string `json:"state"`
	Step    string `json:"step"`
	Doing   string `json:"doing"`
	Attempt int32  `json:"attempt"`
	Text    string `json:"text"`
}

func sendAction(w http.ResponseWriter, code int, a *rpc.Action) error {
	all := fullActionJSON{
		actionJSON{a.GetId(), a.GetKind(), a.GetJob(), a.GetWho(), a.GetWhy(), a.GetState(), a.GetStep(), a.GetDoing(), secondsOf(a.GetCreated()), secondsOf(a.GetEnded())},
		a.GetProblem(), []lineJSON{},
	}
	for _, l := range a.GetLines() {
		all.Lines = append(all.Lines, lineJSON{secondsOf(l.GetAt()), l.GetState(), l.GetStep(), l.GetDoing(), l.GetAttempt(), l.GetText()})
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(raw) // the browser has gone
	return nil
}
