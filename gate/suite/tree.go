package suite

// Tree is what this package reads of a commit's tree.
type Tree interface {
	// List returns the names at the top of the tree, folders included.
	List() ([]string, error)
	// Read returns the content of a file. ok is false if there is nothing at
	// that path, or something else than a regular file: a folder, a symbolic
	// link, a submodule.
	Read(path string) (data []byte, ok bool, err error)
}
