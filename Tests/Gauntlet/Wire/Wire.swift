package import OTASimulator
package import OTAUpdate

/// What the clients and the device of a world speak.
package protocol Wire: Sendable {
    associatedtype Device: VisibleDevice
    associatedtype Image: PushedImage
    associatedtype Task: Sendable

    /// Where its messages can be spoilt.
    static var messages: any Messages.Type { get }

    static func session(_ task: Task, seed: UInt64) throws(UpdateError) -> UpdateSession
}

/// An image as a device is to hold it, byte for byte.
package protocol PushedImage: Sendable {
    var image: [UInt8] { get }
}

/// A virtual device, as somebody sees it who looks into its flash.
package protocol VisibleDevice: SimulatedDevice {
    var flashViolationCount: Int { get }
    var restartCount: Int { get }
    var isUnbootable: Bool { get }
    var bootState: BootState? { get }
    var running: VirtualBootloader.Boot? { get }
    var runningImage: [UInt8]? { get }
    /// What lies in the slot of an image that is about to be tried.
    var markedImage: [UInt8]? { get }
}

extension VirtualDevice: VisibleDevice {}
extension VirtualSMPDevice: VisibleDevice {}
