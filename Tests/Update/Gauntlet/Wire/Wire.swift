package import OTASimulator
package import OTAUpdate

/// The protocol between the clients and the device of a world.
package protocol Wire: Sendable {
    associatedtype Device: VisibleDevice
    associatedtype Image: PushedImage
    associatedtype Task: Sendable

    /// Describes the bytes of its messages that faults can change.
    static var messages: any Messages.Type { get }

    static func session(_ task: Task, seed: UInt64) throws(UpdateError) -> UpdateSession
}

/// A release with the image bytes that the device must hold after a push.
package protocol PushedImage: Sendable {
    var image: [UInt8] { get }
}

/// A virtual device whose flash content and boot state are visible to the test.
package protocol VisibleDevice: SimulatedDevice {
    var flashViolationCount: Int { get }
    var restartCount: Int { get }
    var isUnbootable: Bool { get }
    var bootState: BootState? { get }
    var running: VirtualBootloader.Boot? { get }
    var runningImage: [UInt8]? { get }
    /// The slot's bytes of the image that is marked for a trial.
    var markedImage: [UInt8]? { get }
}

extension VirtualDeviceOf: VisibleDevice {}
