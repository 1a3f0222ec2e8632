// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"
)

// Key seals manifests. All daemons of a cluster hold the same key. The zero Key is not usable;
// see KeyFile and NewKey.
type Key struct {
	seal        [32]byte
	fingerprint string
	set         bool
}

const (
	minKey     = 32
	maxKey     = 4096
	keyContext = "singularity-slurm 2026 store manifest seal 1"
)

// NewKey derives a Key from at least 32 secret bytes.
func NewKey(secret []byte) (Key, error) {
	if len(secret) < minKey || len(secret) > maxKey {
		return Key{}, fmt.Errorf("key: %d bytes, want %d to %d", len(secret), minKey, maxKey)
	}
	k := Key{set: true, fingerprint: fingerprintSecret(secret)}
	blake3.DeriveKey(keyContext, secret, k.seal[:])
	return k, nil
}

// Fingerprint returns a text that differs between keys and does not reveal the key. Nodes of different releases compare
// their fingerprints.
func (k Key) Fingerprint() string { return k.fingerprint }

func fingerprintSecret(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("singularity-slurm: fingerprint of a key"))
	sum := sha256.Sum256(mac.Sum(nil))
	return fmt.Sprintf("%x", sum[:6])
}

// sealOf returns the seal of b.
func (k Key) sealOf(b []byte) [32]byte {
	h, err := blake3.NewKeyed(k.seal[:])
	if err != nil {
		panic("store: 32 bytes are a BLAKE3 key: " + err.Error())
	}
	_, _ = h.Write(b)
	return [32]byte(h.Sum(nil))
}

// verifySeal compares in constant time.
func (k Key) verifySeal(b []byte, seal [32]byte) bool {
	want := k.sealOf(b)
	return subtle.ConstantTimeCompare(want[:], seal[:]) == 1
}

// KeyFile loads a key. The file must be regular, not a symbolic link, owned by the caller's
// effective user (root, in a daemon), without permissions for other users; otherwise the error is
// a *RefusedError that wraps ErrForeign. All bytes count, also a newline at the end.
func KeyFile(path string) (Key, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return Key{}, &RefusedError{"key " + path, fmt.Errorf("%w: symbolic link", ErrForeign)}
	}
	if err != nil {
		return Key{}, fmt.Errorf("key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Key{}, fmt.Errorf("key: %w", err)
	}
	if why := keyFault(info); why != "" {
		return Key{}, &RefusedError{"key " + path, fmt.Errorf("%w: %s", ErrForeign, why)}
	}
	secret, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return Key{}, fmt.Errorf("key: %w", err)
	}
	k, err := NewKey(secret)
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// keyFault returns why a file cannot be trusted as a key, or "".
func keyFault(info os.FileInfo) string {
	sys, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return "not a regular file"
	case int(sys.Uid) != os.Geteuid():
		return fmt.Sprintf("owned by uid %d", sys.Uid)
	case info.Mode().Perm()&0o177 != 0:
		return fmt.Sprintf("mode %04o, want 0600", info.Mode().Perm())
	}
	return ""
}

// GenerateKey writes a new random key to path, which must not exist, with mode 0600. The error wraps fs.ErrExist if path
// exists.
func GenerateKey(path string) error {
	secret := make([]byte, minKey)
	_, _ = rand.Read(secret) // never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("key: %s is there, and stays: with another key all checkpoints made so far are refused (docs/install.md, The key): %w", path, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	_, err = f.Write(secret)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("key: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
