import OTAEngine
import OTASimulator
import OTAUpdate

/// The properties of a protocol that a gauntlet run needs.
protocol GauntletWire: Wire {
    /// Makes the world before the first fault. Its device accepts `releases`.
    static func world(
        _ fate: Fate, _ releases: [Image], _ encoded: EncodedReleases?, seed: UInt64
    ) throws -> World<Self>

    /// Returns a push, and the encoder of its client.
    ///
    /// - Parameter encoded: the bases of the client; nil: the client does not encode.
    static func push(
        _ release: Image, resumes: Bool, _ fate: Fate, _ encoded: EncodedReleases?
    ) -> (task: Task, encoder: UpdateRunner<VirtualTime>.Encoder?)

    /// Returns true if only checked images can be marked for boot with this number of clients.
    static func checksMarks(_ fate: Fate, clients: Int) -> Bool

    /// Returns an offence in the device's memory that the general check of the boot records does not find, or nil.
    static func offence(in device: Device, _ releases: [Image], _ fate: Fate) -> String?

    /// Returns the errors with which a push may fail. Link errors are always allowed. The others need a cause in the fate.
    static func excuses(_ fate: Fate) -> Set<UpdateError.Code>

    /// Returns the number of bytes that a push may send again, or nil for no limit, for example if the device sends false data.
    static func resentLimit(_ transfer: TransferReport, _ fate: Fate, _ world: World<Self>) -> Int?

    /// Removes the cause of a failed push, as a user would do after reading the message.
    static func clear(_ error: UpdateError.Code, _ world: World<Self>, seed: UInt64) throws
}
