// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// tensorMapper is the device that makes tensor maps: any device will do, for the calls name no device.
func (p *DeviceCalls) tensorMapper() (backend.TensorMapper, dispatch.Result) {
	if len(p.View) == 0 {
		return nil, dispatch.ResultNoDevice
	}
	m, ok := p.deviceAt(0).Place().Device.(backend.TensorMapper)
	if !ok {
		return nil, dispatch.ResultNotSupported
	}
	return m, 0
}

// TensorMap implements dispatch.Backend, as does TensorMapAt.
func (p *DeviceCalls) TensorMap(_ *dispatch.Call, s dispatch.Tensorshape) (dispatch.Tensormap, dispatch.Result) {
	d, r := p.tensorMapper()
	if r != 0 {
		return dispatch.Tensormap{}, r
	}
	m, err := d.MakeTensorMap(&backend.TensorShape{
		Kind: backend.TensorKind(s.How), Type: s.Type, Interleave: s.Interleave, Mode: s.Mode, Swizzle: s.Swizzle, Promotion: s.Promotion, Fill: s.Fill,
		Rank: s.Rank, Channels: s.Channels, Pixels: s.Pixels, Address: backend.Addr(s.Address),
		Dim: s.Dim, Strides: s.Strides, Box: s.Box, Steps: s.Steps, Lower: s.Lower, Upper: s.Upper,
	})
	return dispatch.Tensormap{Word: m}, p.Result(err)
}

// TensorMapAt is like a map, of a tensor at another address.
func (p *DeviceCalls) TensorMapAt(_ *dispatch.Call, of dispatch.Tensormap, to dispatch.Devptr) (dispatch.Tensormap, dispatch.Result) {
	d, r := p.tensorMapper()
	if r != 0 {
		return dispatch.Tensormap{}, r
	}
	m, err := d.MoveTensorMap(of.Word, backend.Addr(to))
	return dispatch.Tensormap{Word: m}, p.Result(err)
}
