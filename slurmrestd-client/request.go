// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// call is a request to come.
type call struct {
	method  string
	path    string     // unescaped, from the root
	query   url.Values // may be nil
	body    any        // sent as JSON; nil: no body
	subject string     // of errors: "job 12"
	safe    bool       // the request only reads, so it may be sent again
}

// getCall returns a request that reads a path below the version's root.
func getCall(d dialect, subject string, elem ...string) *call {
	return &call{method: http.MethodGet, path: pathOf(d, elem...), subject: subject, safe: true}
}

// postCall returns a request that changes something.
func postCall(d dialect, subject string, b any, elem ...string) *call {
	return &call{method: http.MethodPost, path: pathOf(d, elem...), body: b, subject: subject}
}

func pathOf(d dialect, elem ...string) string {
	return "/slurm/" + d.versionName() + "/" + strings.Join(elem, "/")
}

// dbPathOf is a path that slurmdbd answers.
func dbPathOf(d dialect, elem ...string) string {
	return "/slurmdb/" + d.versionName() + "/" + strings.Join(elem, "/")
}

// operation is an action in any version of the API: its request is built again if the version
// changes.
type operation struct {
	build func(*peer) (*call, error)
	// fields are the members of the answer that are read; nil: the envelope only.
	fields func(*peer) table[answer]
	// begun reports that part of an answer has been handed on, so that the request cannot be
	// repeated; nil: never.
	begun func() bool
}

const (
	tries        = 3 // of a safe request
	slurmBackoff = 500 * time.Millisecond
	lostBackoff  = 50 * time.Millisecond
)

// requestWithRetries carries an operation out. It negotiates first, and again when the server no longer knows the
// version. It repeats safe requests after a lost connection and after errors that Slurm calls transient,
// with growing pauses.
func (c *Client) requestWithRetries(ctx context.Context, op operation) (answer, error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	renegotiated := false
	for attempt := 1; ; attempt++ {
		p, err := c.currentPeer(ctx)
		if err != nil {
			return answer{}, err
		}
		request, err := op.build(p)
		if err != nil {
			return answer{}, err
		}
		a, err := c.exchangeObserved(ctx, request, op.answerFields(p))
		switch {
		case err == nil:
			return a, nil
		case errors.Is(err, errUnknownVersion) && !renegotiated:
			renegotiated = true
			c.server.forgetPeer(p)
			continue
		case attempt >= tries || !request.safe || op.begun != nil && op.begun() || !isWorthResending(err):
			return a, c.explainError(ctx, p, err)
		}
		pause := lostBackoff
		if Retryable(err) {
			pause = slurmBackoff
		}
		if c.sleep(ctx, pause<<(attempt-1)) != nil {
			return a, err
		}
	}
}

// answerFields returns the table of the members that are read of the answer: the envelope's and the
// operation's.
func (op operation) answerFields(p *peer) table[answer] {
	if op.fields == nil {
		return answerFields
	}
	return answerFields.withFields(op.fields(p))
}

// withTimeout gives a context its deadline.
func (c *Client) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.Timeout)
}

// isWorthResending reports whether a safe request is worth sending again.
func isWorthResending(err error) bool {
	return Retryable(err) || isLost(err)
}

// isLost reports whether a connection broke, as a kept connection does when the server closes it at
// that moment. A refused connection is not lost: no server listens there.
func isLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrMalformed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// exchangeObserved sends a request a single time, reads the answer, and tells the observer.
func (c *Client) exchangeObserved(ctx context.Context, request *call, fields table[answer]) (answer, error) {
	if c.cfg.Observe == nil {
		return c.exchangeCall(ctx, request, fields)
	}
	began := time.Now()
	a, err := c.exchangeCall(ctx, request, fields)
	c.cfg.Observe(Exchange{request.method, endpointOf(request.path), time.Since(began), err})
	return a, err
}

func (c *Client) exchangeCall(ctx context.Context, request *call, fields table[answer]) (answer, error) {
	var sent atomic.Bool
	req, err := c.newRequest(ctx, request, &sent)
	if err != nil {
		return answer{}, err
	}
	client := c.writes
	if request.safe {
		client = c.reads
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, request.transportError(err, sent.Load())
	}
	defer resp.Body.Close()
	a, err := c.readResponse(request, resp, fields)
	if late := ctx.Err(); err != nil && late != nil && !errors.Is(err, late) {
		err = fmt.Errorf("%w: %w", err, late) // the context's end closed the connection
	}
	return a, err
}

// newRequest makes the HTTP request. sent becomes true as soon as a byte may have
// reached the server.
func (c *Client) newRequest(ctx context.Context, request *call, sent *atomic.Bool) (*http.Request, error) {
	target := c.base
	target.Path, target.RawPath = request.path, escapePath(request.path)
	target.RawQuery = request.query.Encode()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	var payload io.Reader
	if request.body != nil {
		raw, err := json.Marshal(request.body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", request.describeCall(), err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, request.method, target.String(), payload)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", request.describeCall(), err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "singularity-slurm")
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, c.addToken(ctx, req)
}

// addToken adds the token and the user.
func (c *Client) addToken(ctx context.Context, req *http.Request) error {
	user := ""
	if c.cfg.Token != nil {
		name, token, err := c.cfg.Token(ctx)
		if err != nil {
			return fmt.Errorf("authenticate: %w", err)
		}
		user = name
		req.Header.Set("X-SLURM-USER-TOKEN", token)
	}
	if c.cfg.AsUser != "" {
		user = c.cfg.AsUser
	}
	if user != "" {
		req.Header.Set("X-SLURM-USER-NAME", user)
	}
	return nil
}

// readResponse turns the response into an answer or an error.
func (c *Client) readResponse(request *call, resp *http.Response, fields table[answer]) (answer, error) {
	switch resp.StatusCode {
	case http.StatusOK:
		a, err := decodeAnswer(resp.Body, c.limits, fields)
		if err != nil && !request.safe {
			err = fmt.Errorf("%w: %w", ErrUncertain, err) // the request may have been carried out: its result is unknown
		}
		if err != nil {
			return a, fmt.Errorf("%s: %w", request.describeCall(), err)
		}
		return a, a.failureOf(request, resp.StatusCode)
	case http.StatusNoContent:
		return answer{}, nil
	case http.StatusNotModified:
		return answer{}, request.errorOf(resp.StatusCode, complaint{Number: numberNoChange, Text: "no change in data"})
	}
	err, slurm := request.readRefusal(resp.StatusCode, resp.Body, c.limits)
	if unknownVersion(resp.StatusCode, slurm) {
		return answer{}, fmt.Errorf("%w: %w", errUnknownVersion, err)
	}
	return answer{}, err
}

// numberNoChange is SLURM_NO_CHANGE_IN_DATA, which a 304 stands for.
const numberNoChange = 1900

// transportError returns the error for a request without an answer.
func (r *call) transportError(err error, sent bool) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // its URL repeats ours
	}
	var dial *net.OpError
	switch {
	case sent && !r.safe:
		return fmt.Errorf("%s: %w: %w", r.describeCall(), ErrUncertain, err)
	case errors.As(err, &dial) && dial.Op == "dial", isLost(err):
		return fmt.Errorf("%s: %w: %w", r.describeCall(), ErrUnreachable, err)
	}
	return fmt.Errorf("%s: %w", r.describeCall(), err)
}

// describeCall is the request in a message.
func (r *call) describeCall() string {
	name := r.method + " " + r.path
	if r.subject != "" {
		return r.subject + ": " + name
	}
	return name
}

// escapePath escapes all bytes but '/' and those that RFC 3986 calls unreserved: 22.05 refuses even
// a bare '+', which "12+1" has.
func escapePath(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '-', c == '.', c == '_', c == '~', c == '/':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
