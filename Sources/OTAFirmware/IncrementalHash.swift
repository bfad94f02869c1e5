/// SHA-256 fed piece by piece. This module knows where an image keeps its own digest but no cryptography: who
/// inspects an image passes the hash in (`OTASigning.SHA256`).
public protocol IncrementalHash {
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// Called once, last.
    mutating func finish() -> SHA256Digest
}
