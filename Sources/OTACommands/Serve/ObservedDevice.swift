package import OTASimulator

/// A virtual device that a person watches.
package protocol ObservedDevice: SimulatedDevice {
    /// What runs; nil: nothing does, for the moment or for good.
    var running: VirtualBootloader.Boot? { get }
    /// What the bootloader has on record.
    var bootState: BootState? { get }
    /// The seconds of each request to blink.
    var identifyRequests: [Int] { get }
    func suspend()
}

extension VirtualDevice: ObservedDevice {}

extension VirtualSMPDevice: ObservedDevice {
    package var identifyRequests: [Int] { [] }
}
