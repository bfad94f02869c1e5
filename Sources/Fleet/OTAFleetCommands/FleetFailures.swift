package import OTACommands
package import OTAFleet
import OTASigning
package import OTAStore

extension StoreError: FailureCause {
    package var failure: Failure {
        let exit: ExitStatus =
            switch code {
            case .unavailable, .recordsLost: .unavailable
            case .accessRefused, .untrustedServer: .refused
            case .full: .inputOutput
            case .corrupt, .tooNew, .recordTooLarge, .objectDamaged: .malformed
            }
        let advice =
            switch code {
            case .unavailable: "run the command again; check the file of --store, or the server of --server"
            case .recordsLost: "show the rollouts that are left: otaflash rollout list"
            case .accessRefused: "check the user of --credentials in the configuration of the server"
            case .untrustedServer: "give the certificate of the server's CA: --ca FILE.pem"
            case .full: "free space on the disk of the store"
            case .corrupt: "restore the store from a copy, or move it away to start with an empty store"
            case .tooNew: "install the later release of otaflash on this computer"
            case .recordTooLarge: "use fewer stages, groups or devices"
            case .objectDamaged: "publish the release again: otaflash release publish FILE.otaf"
            }
        let cause = cause.map { ": \($0)" } ?? ""
        return Failure(
            code.rawValue, exit, (context.isEmpty ? code.rawValue : context) + cause, hint: hint ?? advice)
    }
}

extension FleetError: FailureCause {
    package var failure: Failure {
        let exit: ExitStatus =
            switch code {
            case .malformed, .tooNew, .tooLarge: .malformed
            case .untrusted, .rollbackSeen, .clockNotSet, .expired, .badRelease, .badChange, .signingFailed: .refused
            case .staleRecord: .linkLost
            }
        let advice =
            switch code {
            case .malformed:
                "another program may have written the record; replace it: otaflash rollout abort, release publish or device release"
            case .tooNew: "install the later release of otaflash on this computer"
            case .tooLarge: "use fewer stages, groups or devices"
            case .untrusted: "give the public keys of the operators: --operators KEY.pub.pem"
            case .rollbackSeen: "check the store: it returns an old record"
            case .clockNotSet: "set the clock: timedatectl set-ntp true"
            case .expired: "create a new rollout: otaflash rollout create NAME --release ID"
            case .badRelease: "publish the bundle again: otaflash release publish FILE.otaf"
            case .staleRecord: "wait until the device has ended its update, and run the command again"
            case .badChange: "show the rollout: otaflash rollout status NAME"
            case .signingFailed: "check the key of --key"
            }
        return Failure(code.rawValue, exit, context.isEmpty ? code.rawValue : context, hint: hint ?? advice)
    }
}
