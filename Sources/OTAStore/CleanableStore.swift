/// A store whose records an operator can remove. Gateways and controllers never remove a record.
public protocol CleanableStore: FleetStore {
    /// Removes a record if it still has the expected revision. Running watches do not report it.
    ///
    /// - Returns: false if another process has changed the record, or if it does not exist.
    /// - Throws: `accessRefused`, `unavailable`, `corrupt`.
    func remove(_ key: RecordKey, expecting expected: Revision) async throws(StoreError) -> Bool

    /// Removes all entries of a bucket whose names are not names of records. No list contains them, but they use the space of the store.
    ///
    /// - Returns: the number of removed entries.
    /// - Throws: `accessRefused`, `unavailable`, `corrupt`.
    func removeForeign(in bucket: Bucket) async throws(StoreError) -> Int
}
