import OTAFirmware
import OTAUpdate

/// Requests and their answers.
extension ProfileSession {
    /// - Parameter busyUntil: set where it is asked again, because the device was busy.
    mutating func ask(_ request: Request, busyUntil: Duration? = nil) {
        tag &+= 1
        stage = .exchanging
        exchange = Exchange(request, tag: tag, at: now, busyUntil: busyUntil)
        actions.append(.link(.write(request.bytes(tag: tag), ProfileChannel.control)))
    }

    mutating func answered(_ bytes: [UInt8]) {
        guard let exchange else { return }
        do throws(FrameError) {
            guard let answer = try Answer(to: exchange.request, tag: exchange.tag, parsing: bytes) else { return }
            self.exchange = nil
            switch answer.status {
            case .ok: done(exchange.request, answer.position)
            case .busy: busy(exchange)
            default: declined(exchange.request, answer.status)
            }
        } catch {
            fail(error)
        }
    }

    private mutating func busy(_ exchange: Exchange) {
        let again = now + Exchange.busyInterval
        guard again <= exchange.busyUntil else {
            return fail(UpdateError(.deviceBusy, "the device answered \(exchange.request.name) with busy for 90 s"))
        }
        // A flush has the transfer go on meanwhile, and falls due again by itself.
        if case .sync = exchange.request { return breakLink(LinkError(.lost, "the device is busy with another host")) }
        stage = .pausing(until: again, then: .ask(exchange.request, busyUntil: exchange.busyUntil))
    }

    private mutating func done(_ request: Request, _ position: Position?) {
        switch request {
        case .begin(let object, _, let from, _):
            if let position { began(object, from: from, at: position) }
        case .sync:
            if let position { flushed(to: position) }
        case .finish(.envelope): envelopeAccepted()
        case .finish(.image): imageVerified()
        case .apply: applied()
        case .confirm: confirmed()
        case .discard: discarded()
        case .identify: if let snapshot { finish(.done, snapshot.description) }
        }
    }

    private mutating func declined(_ request: Request, _ status: DeviceStatus) {
        switch (request, status) {
        case (.finish(.image), .digestMismatch): digestMismatched()
        // The device left the state *image* when its flash failed, before the flush arrived.
        case (.sync, .badState), (.sync, .flashFailed):
            mismatched(transfer?.object ?? .image, as: .flashFailed, "the device's flash failed")
        case (.apply(permanent: true), .refusedByPolicy):
            fail(UpdateError(.trialAvailable, "the device refuses to install an image without a trial"))
        default:
            fail(UpdateError(status.error, "the device refused \(request.name): \(status.meaning)"))
        }
    }
}
