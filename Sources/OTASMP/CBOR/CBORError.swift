/// Bytes that are not the CBOR that SMP has.
package struct CBORError: Error, Equatable {
    /// For people, without a full stop.
    package var context: String
}
