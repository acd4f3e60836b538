package nox

// The patterns of Nox: the operators that begin formulas.
const (
	OpAxis = iota
	OpQuote
	OpCompose
	OpCons
	OpBranch
	OpAdd
	OpSub
	OpMul
	OpInverse
	OpEqual
	OpLess
	OpXor
	OpAnd
	OpNot
	OpShift
	OpHash
	OpCall
	OpLook
	patternCount
)

// patterns has the names and costs of the patterns. A cost is taken before the
// operands are reduced.
var patterns = [patternCount]struct {
	name string
	cost uint64
}{
	OpAxis:    {"axis", 1},
	OpQuote:   {"quote", 1},
	OpCompose: {"compose", 1},
	OpCons:    {"cons", 1},
	OpBranch:  {"branch", 1},
	OpAdd:     {"add", 1},
	OpSub:     {"subtract", 1},
	OpMul:     {"multiply", 1},
	OpInverse: {"inverse", 64},
	OpEqual:   {"equal", 1},
	OpLess:    {"less", 64},
	OpXor:     {"xor", 32},
	OpAnd:     {"and", 32},
	OpNot:     {"not", 32},
	OpShift:   {"shift left", 32},
	OpHash:    {"hash", 25},
	OpCall:    {"call", 1},
	OpLook:    {"look", 1},
}
