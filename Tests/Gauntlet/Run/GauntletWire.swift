import OTASimulator
import OTAUpdate

/// What a course through the gauntlet has to know of a protocol.
protocol GauntletWire: Wire {
    /// The world, before anything has gone wrong in it; `releases` may come to it.
    static func world(_ fate: Fate, _ releases: [Image], seed: UInt64) throws -> World<Self>

    static func push(_ release: Image, resumes: Bool) -> Task

    /// Nothing is marked for boot that was not checked, while so many clients come.
    static func checksMarks(_ fate: Fate, clients: Int) -> Bool

    /// What is wrong in the device's memory, beyond what any device's boot records may say; nil: nothing.
    static func offence(in device: Device, _ releases: [Image], _ fate: Fate) -> String?

    /// How a push may fail. What follows from the link alone is always one; the others need a reason in the fate.
    static func excuses(_ fate: Fate) -> Set<UpdateError.Code>

    /// How many bytes a push may send again; nil: as many as it likes, since it may well be lied to.
    static func resentLimit(_ transfer: TransferReport, _ fate: Fate, _ world: World<Self>) -> Int?

    /// Makes way for a push that ended so, as a person would who has its message before their eyes.
    static func clear(_ error: UpdateError.Code, _ world: World<Self>, seed: UInt64) throws
}
