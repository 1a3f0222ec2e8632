// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// TokenLife is how long a token holds.
const TokenLife = time.Hour

// Errors of tokens.
var (
	// ErrToken says that a token was not made by these keys, or not wholly copied.
	ErrToken = errors.New("the token is not of this preemptd; it ends when preemptd is started again")
	// ErrTokenEnded says that a token's time is over.
	ErrTokenEnded = errors.New("the token's time is over")
)

// Keys makes and reads tokens. A token names the user and its end:
//
//	"sing1_" base64url( uid 4 │ until 8 │ salt 8 │ HMAC-SHA256(key, all before) 32 )
//
// The key is this process's own and is never written: tokens end with the process. A token does not have the user's
// rights; they are looked up each time. Keys are safe for concurrent use.
type Keys struct {
	key []byte
	now func() time.Time
}

// NewKeys returns keys with a new random key.
func NewKeys() *Keys {
	k := &Keys{key: make([]byte, 32), now: time.Now}
	rand.Read(k.key)
	return k
}

const (
	tokenPrefix = "sing1_"
	tokenBody   = 4 + 8 + 8
)

// Sign makes a token for a user.
func (k *Keys) Sign(uid uint32) (token string, until time.Time) {
	until = k.now().Add(TokenLife).Truncate(time.Second)
	body := make([]byte, tokenBody, tokenBody+sha256.Size)
	binary.BigEndian.PutUint32(body, uid)
	binary.BigEndian.PutUint64(body[4:], uint64(until.Unix())) //nolint:gosec // after 1970
	rand.Read(body[12:])
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(body, k.macOf(body)...)), until
}

func (k *Keys) macOf(body []byte) []byte {
	m := hmac.New(sha256.New, k.key)
	m.Write([]byte(tokenPrefix))
	m.Write(body)
	return m.Sum(nil)
}

// Check returns the user of a token, and until when the token holds. Its errors are ErrToken and
// ErrTokenEnded.
func (k *Keys) Check(token string) (uid uint32, until time.Time, err error) {
	text, ok := strings.CutPrefix(token, tokenPrefix)
	ok = ok && !strings.ContainsAny(text, "\r\n") // which the decoder would pass over
	raw, bad := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || bad != nil || len(raw) != tokenBody+sha256.Size || !hmac.Equal(raw[tokenBody:], k.macOf(raw[:tokenBody])) {
		return 0, time.Time{}, ErrToken
	}
	until = time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0) //nolint:gosec // Sign wrote it
	if !k.now().Before(until) {
		return 0, time.Time{}, ErrTokenEnded
	}
	return binary.BigEndian.Uint32(raw), until, nil
}
