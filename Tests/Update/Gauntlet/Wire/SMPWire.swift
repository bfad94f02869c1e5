package import OTASMP
package import OTASimulator
package import OTAUpdate

/// SMP: sends MCUboot images to a device with a virtual server.
package enum SMPWire: Wire {
    package typealias Device = VirtualSMPDevice
    package typealias Image = SMPRelease

    package static var messages: any Messages.Type { SMPMessages.self }

    package static func session(_ task: UpdateTask<[SMPImage]>, seed: UInt64) throws(UpdateError) -> UpdateSession {
        UpdateSession(try SMPConversation(task), seed: seed)
    }
}

extension World where Kind == SMPWire {
    /// Makes a device with the smallest slot for the release. The tests make a new world for every power cut.
    package init(
        _ release: SMPRelease, radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(), seed: UInt64 = 1,
        adjust: (inout VirtualSMPConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = VirtualSMPConfiguration(trustedKeys: [release.key])
        configuration.layout = FlashLayout(slotSize: release.image.count.roundedUp(to: 4096))
        adjust(&configuration)
        self.init(try VirtualSMPDevice(configuration), release, radio: radio, faults: faults, seed: seed)
    }

    package var push: UpdateTask<[SMPImage]> { push(UpdateOptions()) }
    package func push(_ options: UpdateOptions) -> UpdateTask<[SMPImage]> {
        .push([SMPImage(release.verified)], options)
    }

    package func run(_ options: UpdateOptions = UpdateOptions()) throws -> Run { try run([push(options)])[0] }
}
