package nox

// The patterns of Nox: the operators of formulas.
const (
	opAxis uint64 = iota
	opQuote
	opCompose
	opCons
	opBranch
	opAdd
	opSub
	opMul
	opInverse
	opEqual
	opLess
	opXor
	opAnd
	opNot
	opShift
	opHash
	opCall
	opLook
	patternCount
)

// patterns has the names and costs of the patterns. A cost is taken before the
// operands are reduced.
var patterns = [patternCount]struct {
	name string
	cost uint64
}{
	opAxis:    {"axis", 1},
	opQuote:   {"quote", 1},
	opCompose: {"compose", 1},
	opCons:    {"cons", 1},
	opBranch:  {"branch", 1},
	opAdd:     {"add", 1},
	opSub:     {"subtract", 1},
	opMul:     {"multiply", 1},
	opInverse: {"inverse", 64},
	opEqual:   {"equal", 1},
	opLess:    {"less", 64},
	opXor:     {"xor", 32},
	opAnd:     {"and", 32},
	opNot:     {"not", 32},
	opShift:   {"shift left", 32},
	opHash:    {"hash", 25},
	opCall:    {"call", 1},
	opLook:    {"look", 1},
}
