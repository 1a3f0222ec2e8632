// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// ErrID means that the bytes are no identity, or that of a place that cannot be reached from here.
var ErrID = errors.New("bad unique id")

// ID is a communicator's identity, of the size of NCCL's. Who knows it may take part.
//
//	magic 8, maker 16, nonce 16, secret 32, length of the address u8, address, zeros
type ID [128]byte

const (
	idMagic    = "SNGNCCL\x01"
	makerAt    = 8
	nonceAt    = makerAt + 16
	secretAt   = nonceAt + 16
	addressAt  = secretAt + sha256.Size
	maxAddress = len(ID{}) - addressAt - 1
)

// key is what a maker makes secrets of.
type key [32]byte

// newID makes an identity: nonce is new, the secret follows from it and the key.
func newID(maker [16]byte, k *key, address string) (id ID, err error) {
	if len(address) > maxAddress {
		return id, fmt.Errorf("%w: the address %q is too long", ErrID, address)
	}
	copy(id[:], idMagic)
	copy(id[makerAt:], maker[:])
	rand.Read(id[nonceAt:secretAt]) //nolint:errcheck // crypto/rand's Read never fails
	copy(id[secretAt:], k.deriveSecret(id.nonceBytes()))
	id[addressAt] = byte(len(address))
	copy(id[addressAt+1:], address)
	return id, nil
}

func (k *key) deriveSecret(nonce []byte) []byte { return authCode(k[:], []byte("secret"), nonce) }

// checkID tells whether the bytes are an identity.
func (id *ID) checkID() error {
	if string(id[:makerAt]) != idMagic || int(id[addressAt]) > maxAddress {
		return ErrID
	}
	return nil
}

func (id *ID) makerToken() [16]byte { return [16]byte(id[makerAt:nonceAt]) }
func (id *ID) nonceBytes() []byte   { return id[nonceAt:secretAt] }
func (id *ID) secretBytes() []byte  { return id[secretAt:addressAt] }
func (id *ID) makerAddress() string { return string(id[addressAt+1:][:id[addressAt]]) }

// Name is a name of the communicator that tells nothing of its secret.
func (id *ID) Name() string { return fmt.Sprintf("%x", authCode(id[:], []byte("name"))[:8]) }

func authCode(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p) //nolint:errcheck // a hash's Write never fails
	}
	return h.Sum(nil)
}
