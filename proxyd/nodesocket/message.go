// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The messages of both sockets; slurm-spank/wire.h has the names of those that C programs send.
//
//	plugin, in a task's process                    proxyd
//	───────────────────────────                    ──────
//	join job= step= task= uid= …  ───────────────► a capsule, fresh or restored
//	                             ◄── ok mode=fresh name=batch, the namespaces' descriptors
//	                                 ok mode=restore … | ok mode=plain reason= |
//	                                 ok mode=finished status= | no reason=
//	terminate, on the same connection  ──────────► the task was sent SIGTERM; the join is answered still
//	plugin, in the epilog
//	end job= uid=  ──────────────────────────────► no part of the job is left on this node
//	                             ◄── ok
//	runner of an srun that has failed (proxyd/srun/tell_user.go)
//	srun-failed dir=  ───────────────────────────► may the user be told of the failure?
//	                             ◄── ok | no
//	the same runner, when an srun that still runs has printed that something fails
//	srun-message dir=  ──────────────────────────► may the user be told now?
//	                             ◄── ok | no
//	sing-srun, in a capsule (slurm-spank/srun/srun.h)
//	srun key=, fds 0 1 2, status pipe, call ─────► the real srun, outside
//	signal key= signal=  ────────────────────────►
//	the same, as scontrol (slurm-spank/srun/scontrol.c)
//	requeue, a pipe ─────────────────────────────► this program is about to have Slurm requeue a job
//
// A packet is one message: NUL-terminated strings, the verb and then key=value.
const (
	version = "1"

	verbJoin        = "join"
	verbTerminate   = "terminate"
	verbEnd         = "end"
	verbSrunFailed  = "srun-failed"
	verbSrunMessage = "srun-message"
	verbSrun        = "srun"
	verbSignal      = "signal"
	verbRequeue     = "requeue"

	keyEnv = "env." // before the name of a variable

	verbOK = "ok"
	verbNo = "no"
)

// oldVerbs maps the verbs of runners that an older proxyd started to the verbs' names today: a
// runner lives as long as its srun.
var oldVerbs = map[string]string{"ended": verbSrunFailed, "says": verbSrunMessage}

// maxMessage bounds a packet; a larger value (an environment) travels as a descriptor.
const maxMessage = 64 << 10

// errMessage is wrapped by the error for a malformed packet.
var errMessage = errors.New("malformed message")

// errVersion is wrapped by the error for a message of another release.
var errVersion = errors.New("protocol version")

// message is a packet.
type message struct {
	verb string
	keys []string // in the order in which they came
	vals map[string]string
}

// newMessage takes a verb and then keys and values in turn.
func newMessage(verb string, pairs ...string) message {
	m := message{verb: verb, vals: map[string]string{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.keys = append(m.keys, pairs[i])
		m.vals[pairs[i]] = pairs[i+1]
	}
	return m
}

func (m message) encode() []byte {
	var b bytes.Buffer
	b.WriteString(m.verb)
	b.WriteByte(0)
	for _, k := range m.keys {
		b.WriteString(k + "=" + strings.ReplaceAll(m.vals[k], "\x00", " "))
		b.WriteByte(0)
	}
	return b.Bytes()
}

// decodeMessage parses a packet. Any user of the node can have written the packet.
func decodeMessage(b []byte) (message, error) {
	if len(b) == 0 || len(b) > maxMessage || b[len(b)-1] != 0 {
		return message{}, errMessage
	}
	words := strings.Split(string(b[:len(b)-1]), "\x00")
	m := message{verb: words[0], vals: map[string]string{}}
	if verb, old := oldVerbs[m.verb]; old {
		m.verb = verb
	}
	for _, w := range words[1:] {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return message{}, fmt.Errorf("%w: %q is no key=value", errMessage, w)
		}
		if _, twice := m.vals[k]; twice {
			return message{}, fmt.Errorf("%w: %s twice", errMessage, k)
		}
		m.keys = append(m.keys, k)
		m.vals[k] = v
	}
	return m, nil
}

// readNumber reads a key that must be a number of at most 32 bits.
func (m message) readNumber(key string) (uint32, error) {
	n, err := strconv.ParseUint(m.vals[key], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: %s=%q is no number", errMessage, key, m.vals[key])
	}
	return uint32(n), nil
}

// readOptional reads a key that may be absent or empty.
func (m message) readOptional(key string, otherwise uint32) (uint32, error) {
	if m.vals[key] == "" {
		return otherwise, nil
	}
	return m.readNumber(key)
}
