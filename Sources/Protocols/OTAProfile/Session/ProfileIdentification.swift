import OTAFirmware
package import OTAUpdate

/// Reads the product and the version of a device, without a subscription: a device can require pairing for a subscription.
package struct ProfileIdentification: Conversation {
    package static let updateProtocol = UpdateProtocol.ota
    private static let limit = Duration.seconds(5)

    package var shared = ConversationState()
    package private(set) var deadline: Duration?
    private var info: DeviceInfo?

    package var isDeviceReached: Bool { true }
    package var restartTime: Duration { .zero }

    package mutating func begin() {
        guard shared.link.channels.isSuperset(of: [ProfileChannel.info, ProfileChannel.version]) else {
            return fail(UpdateError(.unsupportedDevice, "the device does not offer the OTA service, or not all of it"))
        }
        deadline = shared.now + Self.limit
        submit(.read(ProfileChannel.info))
        submit(.read(ProfileChannel.version))
    }

    package mutating func handle(_ event: LinkEvent) {
        do throws(FrameError) {
            switch event {
            case .value(let bytes, ProfileChannel.info): info = try DeviceInfo(parsing: bytes)
            case .value(let bytes, ProfileChannel.version):
                let version = SemanticVersion(String(decoding: bytes, as: UTF8.self))
                guard let version else { throw FrameError(context: "the device's version is not a SemVer version") }
                guard let info else { return }
                finish(.done, DeviceDescription(product: info.product, state: .idle, runningVersion: version.text))
            case .refused(let error, _): refused(error)
            default: break
            }
        } catch {
            fail(UpdateError(.protocolViolation, error.context))
        }
    }

    package mutating func deadlinePassed() {
        reconnect(.afterLoss(LinkError(.timedOut, "no answer within \(Self.limit.components.seconds) s")))
    }

    package mutating func linkEnded() {}
}
