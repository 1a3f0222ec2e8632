// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
)

// ErrID means that the bytes are no identity, or that the address in the identity cannot be reached from this
// process.
var ErrID = errors.New("bad unique id")

// ID is a communicator's identity, of the size of NCCL's. Every process that has the identity may take part.
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

// key is the key from which a maker derives the secrets of its identities.
type key [32]byte

// newID makes an identity with a fresh nonce. The secret is derived from the nonce and the key.
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

func (k *key) deriveSecret(nonce []byte) []byte {
	return collective.AuthCode(k[:], []byte("secret"), nonce)
}

// checkID returns an error if the bytes are no identity.
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

// Name returns a name of the communicator from which the secret cannot be derived.
func (id *ID) Name() string { return fmt.Sprintf("%x", collective.AuthCode(id[:], []byte("name"))[:8]) }
