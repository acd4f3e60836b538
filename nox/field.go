package nox

import "github.com/writ-authority/writ/internal/goldilocks"

// The field of integers modulo [P]. Operands of Add, Sub, Mul and Inverse may be any
// 64-bit integers; results are below P.

// Add returns x + y modulo P.
func Add(x, y uint64) uint64 {
	return goldilocks.Canonical(goldilocks.AddLoose(x, y))
}

// Sub returns x - y modulo P.
func Sub(x, y uint64) uint64 {
	return goldilocks.Canonical(goldilocks.AddLoose(x, P-goldilocks.Canonical(y)))
}

// Mul returns x·y modulo P.
func Mul(x, y uint64) uint64 { return goldilocks.Canonical(goldilocks.Mul(x, y)) }

// Inverse returns the y with x·y = 1 modulo P, and 0 for an x that is 0 modulo P.
func Inverse(x uint64) uint64 { return goldilocks.Canonical(goldilocks.Invert(x)) }
