package import OTASimulator

/// A virtual device whose changes are reported to the user.
package protocol ObservedDevice: SimulatedDevice {
    /// The running image; nil: the device is restarting, or cannot boot.
    var running: VirtualBootloader.Boot? { get }
    /// The state that the bootloader stores on flash.
    var bootState: BootState? { get }
    /// The duration of each request to blink, in seconds; 0 stops the blinking.
    var identifyRequests: [Int] { get }
    /// Stops the device and closes its connections. Its flash keeps its state, and an image on trial remains on trial.
    func suspend()
}

extension VirtualDevice: ObservedDevice {}

extension VirtualSMPDevice: ObservedDevice {
    package var identifyRequests: [Int] { [] }
}
