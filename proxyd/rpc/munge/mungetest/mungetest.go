// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package mungetest is for tests of credentials: an imitation of munge in memory, a real munged for a
// single test, and the suite of tests that both pass.
package mungetest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// Realm imitates the munge daemons of a cluster, in memory. Make a Realm with NewRealm.
type Realm struct {
	key []byte
	// Now is the clock of all nodes.
	Now func() time.Time

	mu   sync.Mutex
	seen map[string]bool
}

// NewRealm returns a realm with a key of its own.
func NewRealm() *Realm {
	key := make([]byte, 32)
	rand.Read(key)
	return &Realm{key: key, Now: time.Now, seen: make(map[string]bool)}
}

// Restart makes the realm forget all decoded credentials, as a restart of munged does.
func (r *Realm) Restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = make(map[string]bool)
}

// As returns the Coder of a user's processes. Only the Coder of uid 0 can decode.
func (r *Realm) As(uid, gid uint32) munge.Coder { return coder{r, uid, gid} }

type coder struct {
	realm    *Realm
	uid, gid uint32
}

type sealedCredential struct {
	UID, GID uint32
	Time     time.Time
	Salt     []byte
	Payload  []byte
}

func (c coder) Encode(_ context.Context, payload []byte) (string, error) {
	salt := make([]byte, 8)
	rand.Read(salt)
	b, err := json.Marshal(sealedCredential{c.uid, c.gid, c.realm.Now(), salt, payload})
	if err != nil {
		return "", err
	}
	return "MUNGE:" + base64.StdEncoding.EncodeToString(append(c.realm.computeMAC(b), b...)) + ":", nil
}

func (r *Realm) computeMAC(b []byte) []byte {
	m := hmac.New(sha256.New, r.key)
	m.Write(b)
	return m.Sum(nil)
}

func (c coder) Decode(_ context.Context, credential string) (*munge.Credential, error) {
	text, ok := strings.CutPrefix(credential, "MUNGE:")
	text, ended := strings.CutSuffix(text, ":")
	b, err := base64.StdEncoding.DecodeString(text)
	if !ok || !ended || err != nil {
		return nil, fmt.Errorf("%w: not a munge credential", munge.ErrRefused)
	}
	if len(b) < sha256.Size || !hmac.Equal(b[:sha256.Size], c.realm.computeMAC(b[sha256.Size:])) {
		return nil, fmt.Errorf("%w: invalid", munge.ErrRefused)
	}
	var s sealedCredential
	if err := json.Unmarshal(b[sha256.Size:], &s); err != nil {
		return nil, fmt.Errorf("%w: invalid", munge.ErrRefused)
	}
	r := c.realm
	r.mu.Lock()
	defer r.mu.Unlock()
	switch age := r.Now().Sub(s.Time); {
	case c.uid != 0:
		return nil, fmt.Errorf("%w: made for another user", munge.ErrRefused)
	case age > munge.Lifetime, age < -munge.Lifetime:
		return nil, munge.ErrExpired
	case r.seen[credential]:
		return nil, munge.ErrReplayed
	}
	r.seen[credential] = true
	return &munge.Credential{UID: s.UID, GID: s.GID, TTL: munge.Lifetime, Payload: s.Payload}, nil
}

// Munged is a munged process that runs for a single test.
type Munged struct {
	Socket string
	dir    string
}

// Start starts a munged that ends with the test. It skips the test if munge is not installed or the test does
// not run as root.
func Start(t testing.TB) *Munged {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can make credentials of others")
	}
	for _, p := range []string{"munged", "munge", "unmunge"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs munge (apt install munge): %v", err)
		}
	}
	// Users must be able to reach the socket. They cannot reach files in t.TempDir.
	dir, err := os.MkdirTemp("", "munged-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	key := make([]byte, 64)
	rand.Read(key)
	path := func(s string) string { return filepath.Join(dir, s) }
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path("key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	m := &Munged{Socket: path("socket"), dir: dir}
	cmd := exec.Command("munged", "--foreground", "--force", "--socket="+m.Socket, "--key-file="+path("key"),
		"--pid-file="+path("pid"), "--seed-file="+path("seed"), "--log-file="+path("log"))
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(unix.SIGTERM)
		cmd.Wait()
	})
	deadline := time.After(10 * time.Second)
	for {
		_, err := m.As(0, 0).Encode(t.Context(), nil)
		if err == nil {
			return m
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("munged: %v\n%s", err, said.String())
		}
	}
}

// As returns the Coder of a user's processes. The test runs as root, so each Coder decodes as root.
func (m *Munged) As(uid, gid uint32) munge.Coder {
	if uid == 0 && gid == 0 {
		return munge.Programs{Socket: m.Socket}
	}
	script := filepath.Join(m.dir, fmt.Sprintf("munge-%d-%d", uid, gid))
	text := fmt.Sprintf("#!/bin/sh\nexec munge --uid=%d --gid=%d \"$@\"\n", uid, gid)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		panic(err)
	}
	return munge.Programs{Munge: script, Socket: m.Socket}
}

// Run tests the contract of munge.Coder. as returns the Coder of a user, all in the same realm; the Coder of
// root decodes.
func Run(t *testing.T, as func(uid, gid uint32) munge.Coder) {
	ctx := t.Context()
	root := as(0, 0)
	encode := func(t *testing.T, uid uint32, payload string) string {
		t.Helper()
		c, err := as(uid, uid+1).Encode(ctx, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("tells who", func(t *testing.T) {
		for _, uid := range []uint32{0, 1001, 65534} {
			for _, payload := range []string{"", "x", "a\n\nb: 7\n\n", strings.Repeat("\x00\xff", 2000)} {
				c, err := root.Decode(ctx, encode(t, uid, payload))
				if err != nil {
					t.Fatal(err)
				}
				if c.UID != uid || c.GID != uid+1 || string(c.Payload) != payload || c.TTL != munge.Lifetime {
					t.Errorf("user %d, payload of %d bytes: got %d, %d, %s, %d bytes", uid, len(payload), c.UID, c.GID, c.TTL, len(c.Payload))
				}
			}
		}
	})
	t.Run("works once", func(t *testing.T) {
		c := encode(t, 1001, "x")
		if _, err := root.Decode(ctx, c); err != nil {
			t.Fatal(err)
		}
		if _, err := root.Decode(ctx, c); !errors.Is(err, munge.ErrReplayed) {
			t.Errorf("the second time: %v", err)
		}
	})
	t.Run("refuses all else", func(t *testing.T) {
		good := encode(t, 1001, "x")
		flipped := []byte(good)
		if flipped[20]++; flipped[20] > 'z' || flipped[20] == ':' || flipped[20] == '[' {
			flipped[20] = 'B'
		}
		for name, c := range map[string]string{
			"nothing": "", "text": "hello", "empty": "MUNGE::", "zeros": "MUNGE:AAAA:", "half": good[:len(good)/2],
			"changed": string(flipped), "options": "--help", "long": "MUNGE:" + strings.Repeat("A", 100_000) + ":",
		} {
			if _, err := root.Decode(ctx, c); !errors.Is(err, munge.ErrRefused) || errors.Is(err, munge.ErrNoMunge) {
				t.Errorf("Decode of a credential of the kind %s: %v; want ErrRefused", name, err)
			}
		}
	})
}
