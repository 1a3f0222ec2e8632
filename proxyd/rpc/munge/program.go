// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The errors of this package.
var (
	// ErrRefused says that a credential, or the request that came with it, cannot be trusted;
	// ErrReplayed, ErrExpired, ErrElsewhere, ErrTampered and ErrRepeated wrap it.
	ErrRefused = errors.New("credential refused")
	// ErrReplayed says that the credential was used before.
	ErrReplayed = fmt.Errorf("%w: used before", ErrRefused)
	// ErrExpired says that the credential is from too long ago or from the future.
	ErrExpired = fmt.Errorf("%w: too old, or from the future: compare the clocks of both nodes", ErrRefused)
	// ErrElsewhere says that the credential was made for another node or another method.
	ErrElsewhere = fmt.Errorf("%w: made for another", ErrRefused)
	// ErrTampered says that the credential was made for a request with other bytes.
	ErrTampered = fmt.Errorf("%w: request was changed on its way", ErrRefused)
	// ErrRepeated says that a call is sent again, and may have been carried out before the daemon began.
	ErrRepeated = fmt.Errorf("%w: sent again, and the daemon began after it was first sent", ErrRefused)
	// ErrUnsealed says that a reply is not from a root process of this cluster, or was
	// changed on its way.
	ErrUnsealed = errors.New("reply is not sealed by a daemon of this cluster")
	// ErrNoMunge says that munge cannot be used on this node.
	ErrNoMunge = errors.New("munge does not work on this node")
)

// Lifetime is the time for which a credential is valid: munge's own default, so that nodes with
// clocks that are good enough for Slurm are good enough for us.
const Lifetime = 300 * time.Second

// maxCredential limits the bytes that are handed to unmunge. A ticket makes about 1 KiB.
const maxCredential = 8 << 10

// Coder makes and reads credentials. Programs is the real Coder.
type Coder interface {
	// Encode returns a credential over payload that only root can decode.
	Encode(ctx context.Context, payload []byte) (string, error)
	// Decode returns the user that made the credential. An error of the credential wraps
	// ErrRefused, an error of this node ErrNoMunge.
	Decode(ctx context.Context, credential string) (*Credential, error)
}

// Credential is the content of a credential: munge vouches for the user.
type Credential struct {
	UID, GID uint32
	TTL      time.Duration
	Payload  []byte
}

// Programs is a Coder that runs munge and unmunge. The zero value finds them in PATH and
// munged at its usual socket.
type Programs struct {
	Munge, Unmunge string // "": as in PATH
	Socket         string // of munged; "": as the programs were built
}

// Encode implements Coder.
func (p Programs) Encode(ctx context.Context, payload []byte) (string, error) {
	args := []string{"--restrict-uid=0", "--ttl=" + strconv.Itoa(int(Lifetime/time.Second))}
	out, err := p.runProgram(ctx, orDefault(p.Munge, "munge"), args, payload)
	if err != nil {
		return "", noMunge(err)
	}
	credential := strings.TrimSpace(string(out))
	if !credentialSyntax.MatchString(credential) {
		return "", fmt.Errorf("%w: munge printed %.40q", ErrNoMunge, credential)
	}
	return credential, nil
}

// credentialSyntax matches the only texts that are handed to unmunge.
var credentialSyntax = regexp.MustCompile(`^MUNGE:[A-Za-z0-9+/]+={0,2}:$`)

// Decode implements Coder.
func (p Programs) Decode(ctx context.Context, credential string) (*Credential, error) {
	if len(credential) > maxCredential || !credentialSyntax.MatchString(credential) {
		return nil, fmt.Errorf("%w: not a munge credential", ErrRefused)
	}
	out, err := p.runProgram(ctx, orDefault(p.Unmunge, "unmunge"), []string{"--keys=STATUS,UID,GID,TTL,LENGTH"}, []byte(credential))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return parseUnmunge(out)
	case errors.As(err, &exit):
		return nil, decodeError(exit)
	default:
		return nil, noMunge(err)
	}
}

// The exit statuses of unmunge are the numbers of libmunge (munge.h).
const (
	exitSnafu    = 1
	exitBadArg   = 2
	exitNoMem    = 5
	exitSocket   = 6
	exitTimeout  = 7
	exitExpired  = 15
	exitRewound  = 16
	exitReplayed = 17
	exitRestrict = 18
)

// decodeError says whether the credential or this node is to blame for a failure of unmunge.
func decodeError(exit *exec.ExitError) error {
	switch code := exit.ExitCode(); code {
	case exitExpired, exitRewound:
		return ErrExpired
	case exitReplayed:
		return ErrReplayed
	case exitRestrict:
		return fmt.Errorf("%w: made for another user than this daemon's", ErrRefused)
	case exitSnafu, exitBadArg, exitNoMem, exitSocket, exitTimeout, -1:
		return noMunge(exit)
	default:
		return fmt.Errorf("%w: %s", ErrRefused, lastLine(exit.Stderr, "unmunge: Error: "))
	}
}

func noMunge(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", ErrNoMunge, lastLine(exit.Stderr, ""))
	}
	return fmt.Errorf("%w: %w", ErrNoMunge, err)
}

func (p Programs) runProgram(ctx context.Context, program string, args []string, stdin []byte) ([]byte, error) {
	if p.Socket != "" {
		args = append(args, "--socket="+p.Socket)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"LC_ALL=C"} // their output is parsed
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", program, ctx.Err())
	}
	return out, err
}

// parseUnmunge reads "KEY: value" lines, of which a value may end in "(number)", an empty
// line, and the payload.
func parseUnmunge(out []byte) (*Credential, error) {
	head, payload, found := bytes.Cut(out, []byte("\n\n"))
	if !found {
		return nil, fmt.Errorf("%w: unmunge printed %.80q", ErrNoMunge, out)
	}
	fields := make(map[string]uint64)
	for line := range strings.Lines(string(head)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if i := strings.LastIndexByte(value, '('); i >= 0 {
			value = strings.TrimSuffix(value[i+1:], ")")
		}
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: unmunge printed %.80q", ErrNoMunge, line)
		}
		fields[key] = n
	}
	for _, key := range []string{"STATUS", "UID", "GID", "TTL", "LENGTH"} {
		if _, ok := fields[key]; !ok {
			return nil, fmt.Errorf("%w: unmunge printed no %s", ErrNoMunge, key)
		}
	}
	if fields["STATUS"] != 0 || fields["LENGTH"] != uint64(len(payload)) {
		return nil, fmt.Errorf("%w: unmunge printed status %d and %d bytes of %d",
			ErrNoMunge, fields["STATUS"], len(payload), fields["LENGTH"])
	}
	return &Credential{
		UID: uint32(fields["UID"]), GID: uint32(fields["GID"]),
		TTL: time.Duration(fields["TTL"]) * time.Second, Payload: payload,
	}, nil
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// lastLine returns the last line of a program's error output, without the prefix.
func lastLine(stderr []byte, prefix string) string {
	s := strings.TrimSpace(string(stderr))
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	return strings.TrimPrefix(s, prefix)
}
